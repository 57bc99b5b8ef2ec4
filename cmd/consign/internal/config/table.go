package config

import (
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/consign-go/consign/cli"
)

// table reads the keys of one table and collects what is wrong with them.
type table struct {
	load   *loader
	path   string // "channels.crm"; "" is the top
	place  string // of all keys, where they come from a flag; "" is the document
	values map[string]any
	known  map[string]bool
}

func (l *loader) table(path, place string, values map[string]any) *table {
	return &table{load: l, path: path, place: place, values: values, known: map[string]bool{}}
}

// full is the whole path of a key.
func (t *table) full(key string) string {
	if t.path == "" {
		return key
	}
	return t.path + "." + key
}

func (t *table) fault(key, rule string) { t.load.add(t.place, t.full(key), rule) }

// get returns a value and takes note that the key is known.
func (t *table) get(key string) (any, bool) {
	t.known[key] = true
	v, ok := t.values[key]
	return v, ok
}

// read reads a value of one type; the fault names the kind that is wanted and never
// the value.
func read[T any](t *table, key, kind string) (T, bool) {
	v, ok := t.get(key)
	if !ok {
		var zero T
		return zero, false
	}
	out, ok := v.(T)
	if !ok {
		t.fault(key, "is no "+kind)
	}
	return out, ok
}

func (t *table) text(key string, into *string) {
	if s, ok := read[string](t, key, "text"); ok {
		*into = s
	}
}

func (t *table) flag(key string, into *bool) {
	if b, ok := read[bool](t, key, "true or false"); ok {
		*into = b
	}
}

func (t *table) number(key string, into *int) {
	if n, ok := read[int64](t, key, "whole number"); ok {
		*into = int(n)
	}
}

func (t *table) share(key string, into *float64) {
	v, ok := t.get(key)
	if !ok {
		return
	}
	switch v := v.(type) {
	case float64:
		*into = v
	case int64:
		*into = float64(v)
	default:
		t.fault(key, "is no number")
	}
}

func (t *table) duration(key string, into *time.Duration) {
	if s, ok := read[string](t, key, `duration, like "30s"`); ok {
		*into = t.parsed(key, s)
	}
}

func (t *table) parsed(key, s string) time.Duration {
	d, err := cli.Age(s)
	if err != nil {
		t.fault(key, `is no duration, like "30s", "5m", "2h" or "30d"`)
	}
	return d
}

// texts reads one text or a list of them.
func (t *table) texts(key string) []string {
	v, ok := t.get(key)
	if !ok {
		return nil
	}
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		out := make([]string, 0, len(v))
		for _, one := range v {
			s, ok := one.(string)
			if !ok {
				t.fault(key, "is no list of texts")
				return nil
			}
			out = append(out, s)
		}
		return out
	}
	t.fault(key, "is neither text nor a list of texts")
	return nil
}

// numbers reads a list of whole numbers.
func (t *table) numbers(key string) (out []int64) {
	list, ok := read[[]any](t, key, "list of whole numbers")
	if !ok {
		return nil
	}
	for _, one := range list {
		n, ok := one.(int64)
		if !ok {
			t.fault(key, "is no list of whole numbers")
			return nil
		}
		out = append(out, n)
	}
	return out
}

// below reads a table of texts.
func (t *table) below(key string) map[string]string {
	values, ok := read[map[string]any](t, key, "table")
	if !ok {
		return nil
	}
	out := map[string]string{}
	for name, v := range values {
		s, ok := v.(string)
		if !ok {
			t.fault(key+"."+name, "is no text")
			continue
		}
		out[name] = s
	}
	return out
}

// secrets reads KEY_env and KEY_file: where secrets are, which never stand in the
// configuration itself, unless the caller reads KEY as well.
func (t *table) secrets(key string) (out []string) {
	if _, inline := t.values[key]; inline && !t.known[key] {
		t.known[key] = true
		t.fault(key, "is a secret and does not belong into a configuration: name it by "+key+"_env or "+key+"_file")
	}
	for _, name := range t.texts(key + "_env") {
		if s := strings.TrimSpace(os.Getenv(name)); s != "" {
			out = append(out, s)
		} else if t.load.secrets {
			t.fault(key+"_env", "the environment variable "+name+" is not set")
		}
	}
	for _, name := range t.texts(key + "_file") {
		raw, err := os.ReadFile(name)
		s := strings.TrimSpace(string(raw))
		switch {
		case !t.load.secrets:
		case err != nil:
			t.fault(key+"_file", "the file "+name+" cannot be read")
		case s == "":
			t.fault(key+"_file", "the file "+name+" is empty")
		}
		if s != "" && err == nil {
			out = append(out, s)
		}
	}
	return out
}

// secret is secrets where there can only be one.
func (t *table) secret(key string) string {
	all := t.secrets(key)
	if len(all) > 1 {
		t.fault(key+"_env", "names more than one secret")
	}
	if len(all) == 0 {
		return ""
	}
	return all[0]
}

// done reports the keys that nobody asked for.
func (t *table) done() {
	for _, key := range slices.Sorted(maps.Keys(t.values)) {
		if !t.known[key] {
			t.fault(key, "is no key here; known are "+strings.Join(slices.Sorted(maps.Keys(t.known)), ", "))
		}
	}
}
