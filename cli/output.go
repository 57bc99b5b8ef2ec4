package cli

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/consign-go/consign"
)

// print writes one result: as JSON, or as the line for people.
func (t *Tree) print(cmd *cobra.Command, v any, line string) error {
	progress(cmd.Context(), "")
	if t.json {
		raw, err := json.Marshal(v)
		if err != nil {
			return err
		}
		line = string(raw)
	}
	if _, err := fmt.Fprintln(cmd.OutOrStdout(), line); err != nil {
		return &Error{
			Code: ExitFailed, Err: fmt.Errorf("the result cannot be written: %w", err),
			Next: "What was to be done is done: look before you repeat it.",
		}
	}
	return nil
}

// moment is a time as it is printed: UTC, in JSON null where there is none.
type moment struct{ time.Time }

func (m moment) String() string {
	if m.IsZero() {
		return "-"
	}
	return m.UTC().Format(time.RFC3339)
}

func (m moment) MarshalJSON() ([]byte, error) {
	if m.IsZero() {
		return []byte("null"), nil
	}
	return json.Marshal(m.UTC().Format(time.RFC3339Nano))
}

// resultJSON is what became of a visit.
type resultJSON struct {
	Ref    string `json:"ref"`
	Status string `json:"status"`
	Code   string `json:"code"`
}

func (t *Tree) printResult(cmd *cobra.Command, r consign.Result) error {
	v := resultJSON{r.Ref.String(), string(r.Status), string(r.Code)}
	return t.print(cmd, v, columns(v.Ref, v.Status, v.Code))
}

// columns puts fields on a line, two spaces apart, empty ones at the end left out.
func columns(fields ...string) string {
	return oneLine(strings.TrimRight(strings.Join(fields, "  "), " "))
}

// oneLine escapes what breaks a line or turns its direction: what somebody wrote must
// not look like something that this program says.
func oneLine(s string) string {
	var b strings.Builder
	for _, r := range s {
		if strconv.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRune(r)
		b.WriteString(quoted[1 : len(quoted)-1])
	}
	return b.String()
}

// refArg reads the argument REF.
func refArg(args []string) (consign.Ref, error) {
	ref, err := consign.ParseRef(args[0])
	if err != nil {
		return ref, usage("%q is no ref: want the 36 characters that enqueue printed", args[0])
	}
	return ref, nil
}
