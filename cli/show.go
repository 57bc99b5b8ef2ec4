package cli

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/consign-go/consign/operator"
)

// intentJSON is everything that is known about one intent but its content.
type intentJSON struct {
	summaryJSON
	DeliveryKey   string           `json:"delivery_key"`
	RequestDigest string           `json:"request_digest"` // empty: none is bound yet
	Deadline      moment           `json:"deadline"`
	LastError     string           `json:"last_error"`
	Means         string           `json:"means"`
	Do            string           `json:"do"`
	Stranded      bool             `json:"stranded"`
	Erased        bool             `json:"erased"`
	Program       string           `json:"program"` // that made the newest claim
	History       []attemptJSON    `json:"history"`
	Resolutions   []resolutionLine `json:"resolutions"`
	Chain         []chainJSON      `json:"chain"`
	Choices       []choiceJSON     `json:"choices"`
}

// attemptJSON is an attempt that was no plain success, or what came late.
type attemptJSON struct {
	Ref        string `json:"ref"`
	Generation int64  `json:"generation"`
	Number     int    `json:"number"`
	StartedAt  moment `json:"started_at"`
	EndedAt    moment `json:"ended_at"`
	Outcome    string `json:"outcome"`
	Code       string `json:"code"`
	Error      string `json:"error"`
	HTTPStatus int    `json:"http_status"`
	Late       bool   `json:"late"`
	Proof      string `json:"proof"` // what the receiver signed
}

// resolutionLine is a finding.
type resolutionLine struct {
	ID         string `json:"id"`
	At         moment `json:"at"`
	Outcome    string `json:"outcome"`
	Source     string `json:"source"`
	By         string `json:"by"`
	Evidence   string `json:"evidence"`
	Supersedes string `json:"supersedes"`
}

func resolutionJSON(r *operator.Resolution) resolutionLine {
	v := resolutionLine{ID: r.ID.String(), At: moment{r.At}, Outcome: string(r.Outcome), Source: r.Source, By: r.By, Evidence: r.Evidence}
	if !r.Supersedes.IsZero() {
		v.Supersedes = r.Supersedes.String()
	}
	return v
}

// chainJSON is an intent that was sent for the same thing.
type chainJSON struct {
	Ref    string `json:"ref"`
	How    string `json:"how"` // "first", "redelivery" or "reissue"
	Status string `json:"status"`
	Found  string `json:"found"` // the current finding about it; empty: there is none
}

// choiceJSON is what can be done, and what speaks against it.
type choiceJSON struct {
	Action  string `json:"action"`
	Refused string `json:"refused"`
	Warning string `json:"warning"`
}

func (t *Tree) show() *cobra.Command {
	return &cobra.Command{
		Use:   "show REF",
		Short: "Tell everything that is known about one intent",
		Long: `Tell everything that is known about one intent, its whole history and what can be done about
it: everything but what is sent and to whom.`,
		Example: `  consign show 0198c5f0-1f7e-7cc3-98c4-dc0c0c07398f`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ref, err := refArg(args)
			if err != nil {
				return err
			}
			o, err := t.desk(cmd)
			if err != nil {
				return err
			}
			e, err := o.Show(cmd.Context(), ref)
			if err != nil {
				return err
			}
			v := whole(&e)
			return t.print(cmd, v, v.text())
		},
	}
}

func whole(e *operator.Entry) *intentJSON {
	v := &intentJSON{
		summaryJSON: summary(&e.Summary), DeliveryKey: e.DeliveryKey.String(), Deadline: moment{e.Deadline},
		LastError: e.LastError, Means: e.Means, Do: e.Do, Stranded: e.Stranded, Erased: e.Erased, Program: e.Program,
		History: []attemptJSON{}, Resolutions: []resolutionLine{}, Chain: []chainJSON{}, Choices: []choiceJSON{},
	}
	if e.Digest != [32]byte{} {
		v.RequestDigest = hex.EncodeToString(e.Digest[:])
	}
	for _, a := range e.Evidence {
		v.History = append(v.History, attemptJSON{
			Ref: a.Ref.String(), Generation: a.Generation, Number: a.Number, StartedAt: moment{a.StartedAt}, EndedAt: moment{a.At},
			Outcome: a.Outcome, Code: string(a.Code), Error: a.Error, HTTPStatus: a.HTTPStatus, Late: a.Late, Proof: a.Proof,
		})
	}
	slices.SortStableFunc(v.History, func(a, b attemptJSON) int { return a.EndedAt.Compare(b.EndedAt.Time) })
	for i := range e.Resolutions {
		v.Resolutions = append(v.Resolutions, resolutionJSON(&e.Resolutions[i]))
	}
	for _, l := range e.Chain {
		v.Chain = append(v.Chain, chainJSON{l.Ref.String(), l.How, string(l.Status), string(l.Found)})
	}
	for _, c := range e.Choices {
		v.Choices = append(v.Choices, choiceJSON{string(c.Action), c.Refused, c.Warning})
	}
	return v
}

// text is the intent for people.
func (v *intentJSON) text() string {
	var b strings.Builder
	line := func(name string, value any) { fmt.Fprintf(&b, "%-14s%s\n", name, oneLine(fmt.Sprint(value))) }
	line("ref", v.Ref)
	line("profile", orDash(v.Profile))
	line("kind", orDash(v.Kind))
	line("status", v.Status)
	line("code", orDash(v.Code))
	line("known", v.Known)
	line("means", v.Means)
	line("do", v.Do)
	line("attempts", v.Attempts)
	line("generation", v.Generation)
	line("delivery key", v.DeliveryKey)
	line("digest", orDash(v.RequestDigest))
	line("created", v.CreatedAt)
	line("updated", v.UpdatedAt)
	line("finished", v.FinishedAt)
	line("due", v.DueAt)
	line("deadline", v.Deadline)
	line("in review", v.ReviewAt)
	line("last error", orDash(v.LastError))
	for _, a := range v.History {
		line("attempt", columns(a.EndedAt.String(), fmt.Sprintf("%d/%d", a.Generation, a.Number), a.Outcome, orDash(a.Code), a.Error))
		if a.Proof != "" {
			line("proof", columns(a.EndedAt.String(), fmt.Sprintf("%d/%d", a.Generation, a.Number), a.Proof))
		}
	}
	for _, r := range v.Resolutions {
		line("finding", columns(r.At.String(), r.ID, r.Outcome, r.Source, r.By, r.Evidence))
	}
	if len(v.Chain) > 1 {
		for _, c := range v.Chain {
			line("chain", columns(c.Ref, c.How, c.Status, c.Found))
		}
	}
	for _, c := range v.Choices {
		if c.Refused == "" {
			line("possible", columns(commands[c.Action], c.Warning))
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// commands are how what is possible is asked for.
var commands = map[string]string{
	string(operator.ActResolve): "resolve", string(operator.ActProve): "resolve --proof", string(operator.ActRedeliver): "redeliver",
	string(operator.ActReissue): "reissue", string(operator.ActCancel): "cancel",
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
