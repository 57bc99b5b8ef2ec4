package config

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// document is a TOML file with the line of each of its keys.
type document struct {
	name   string
	values map[string]any
	lines  map[string]int // by path, as in "channels.crm.url"
}

// parse reads a document. What is wrong with its syntax is one fault.
func parse(name string, text []byte) (*document, Faults) {
	d := &document{name: name, values: map[string]any{}, lines: map[string]int{}}
	if err := toml.Unmarshal(text, &d.values); err != nil {
		f := Fault{Place: name, Rule: "is not TOML"}
		var at *toml.DecodeError
		if errors.As(err, &at) {
			f.line, _ = at.Position()
			// The message names characters and kinds, but for a number that is none.
			f.Place, f.Rule = name+":"+strconv.Itoa(f.line), "is not TOML: "+strings.TrimPrefix(at.Error(), "toml: ")
		}
		return nil, Faults{f}
	}
	d.locate(text)
	return d, nil
}

// locate finds the lines of all keys: the parser's tree has them, decoded values
// do not.
func (d *document) locate(text []byte) {
	var p unstable.Parser
	p.Reset(text)
	var above []string
	for p.NextExpression() {
		e := p.Expression()
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			above = d.note(&p, nil, e.Key())
		case unstable.KeyValue:
			path := d.note(&p, above, e.Key())
			d.inside(&p, path, e.Value())
		}
	}
}

// inside notes the keys of an inline table.
func (d *document) inside(p *unstable.Parser, above []string, value *unstable.Node) {
	if value.Kind != unstable.InlineTable {
		return
	}
	for it := value.Children(); it.Next(); {
		if kv := it.Node(); kv.Kind == unstable.KeyValue {
			d.inside(p, d.note(p, above, kv.Key()), kv.Value())
		}
	}
}

// note records the line of a key below a path, and of the tables that its dots
// imply, and returns its own path.
func (d *document) note(p *unstable.Parser, above []string, key unstable.Iterator) []string {
	path := slices.Clone(above)
	for key.Next() {
		n := key.Node()
		path = append(path, string(n.Data))
		joined := strings.Join(path, ".")
		if d.lines[joined] == 0 {
			d.lines[joined] = p.Shape(n.Raw).Start.Line
		}
	}
	return path
}

// line is where a path is, or what is above it.
func (d *document) line(path string) int {
	for path != "" {
		if n := d.lines[path]; n != 0 {
			return n
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
	return 0
}

// place is a path's place for people.
func (d *document) place(path string) (string, int) {
	line := d.line(path)
	if line == 0 {
		return d.name, 0
	}
	return d.name + ":" + strconv.Itoa(line), line
}
