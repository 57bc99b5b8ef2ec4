package page

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"github.com/consign-go/consign/bench"
)

// Where things are below the directory of the documents.
const (
	Document = "performance.md"
	folder   = "performance"
	Text     = folder + "/page.tmpl"    // what is written by hand
	Raw      = folder + "/results.json" // what was measured
	repeat   = "go run ./cmd/compare -page ../docs"
)

// maker makes one page.
type maker struct {
	record *bench.Record
	files  map[string][]byte // by path below the directory of the documents
}

// Make returns the files of the page, by their paths below the directory of the
// documents. What was never measured is said to be so.
func Make(record *bench.Record, text string) (map[string][]byte, error) {
	m := &maker{record: record, files: map[string][]byte{}}
	t, err := template.New(Text).Option("missingkey=error").Funcs(template.FuncMap{
		"goals": m.goals, "goalChart": m.goalChart, "measure": m.measure, "value": m.value, "runs": m.runs, "caution": m.caution, "repeat": m.repeat,
		"rates": m.rates, "costs": m.costs, "curve": m.curve, "engine": m.engine, "profile": m.profile, "latency": m.latency, "pages": m.pages,
	}).Parse(text)
	if err != nil {
		return nil, err
	}
	var out strings.Builder
	if err := t.Execute(&out, nil); err != nil {
		return nil, err
	}
	m.files[Document] = []byte("<!-- Made by \"" + repeat + " -render\" from " + Text + " and " + Raw + ": edit those. -->\n\n" +
		strings.TrimLeft(out.String(), "\n"))
	return m.files, nil
}

// Write makes the page below dir from what lies there. Charts that the page no
// longer has are removed.
func Write(dir string) error {
	record, err := bench.LoadRecord(filepath.Join(dir, Raw))
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(dir, Text))
	if err != nil {
		return err
	}
	files, err := Make(record, string(text))
	if err != nil {
		return err
	}
	old, err := Charts(dir)
	if err != nil {
		return err
	}
	for _, name := range old {
		if _, made := files[name]; !made {
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				return err
			}
		}
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Charts lists the charts that lie below dir.
func Charts(dir string) ([]string, error) {
	found, err := filepath.Glob(filepath.Join(dir, folder, "*.svg"))
	for i, f := range found {
		found[i] = folder + "/" + filepath.Base(f)
	}
	slices.Sort(found)
	return found, err
}

// image puts a chart beside the page and returns what shows it.
func (m *maker) image(name, alt string, svg []byte) string {
	file := folder + "/" + name + ".svg"
	m.files[file] = svg
	return fmt.Sprintf("![%s](%s)\n", alt, file)
}

const unmeasured = "*Not measured yet.*\n"

// table writes rows as a table; the first one is the head. align has one letter a
// column: l or r.
func table(align string, rows [][]string) string {
	var b strings.Builder
	for i, row := range rows {
		b.WriteString("| " + strings.Join(row, " | ") + " |\n")
		if i == 0 {
			b.WriteString("|")
			for _, a := range align {
				b.WriteString(map[rune]string{'l': "---|", 'r': "---:|"}[a])
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

// repeat is the command that takes measures again.
func (m *maker) repeat(measures string) string {
	return "`" + repeat + " -measures " + measures + "`"
}
