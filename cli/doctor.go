package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/migrate"
)

// Check is something that doctor looks at.
type Check struct {
	// Name is one word for what is looked at: "channels".
	Name string

	// Look returns what is wrong; none is good news. An error means that it could
	// not be looked at.
	Look func(ctx context.Context) ([]Finding, error)
}

// Finding is something that is wrong.
type Finding struct {
	What    string // what is found
	Fix     string // what to do about it
	Warning bool   // it works all the same, for now
}

// farClock is from which distance on the two clocks are worth a word. Nothing
// depends on the program's own; what people compare does.
const farClock = time.Second

// findingJSON is one line of doctor.
type findingJSON struct {
	Check   string `json:"check"`
	Result  string `json:"result"` // "ok", "warning" or "fault"
	Finding string `json:"finding"`
	Fix     string `json:"fix"`
}

func (t *Tree) doctor() *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Find what is misconfigured and say how to mend it",
		Long: `Look at the schema, the database's settings, the clocks, hints, and at what the program
itself declares, and print a line for each check: ok, warning or fault, with what to do.
It changes nothing. It ends with 1 where there is a fault; warnings do not count.`,
		Example: `  consign doctor --json`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			checks, err := t.examined(cmd)
			if err != nil {
				return err
			}
			faults := 0
			for _, c := range checks {
				progress(cmd.Context(), "looking at %s", c.Name)
				n, err := t.look(cmd, c)
				faults += n
				if err != nil {
					return err
				}
			}
			if faults > 0 {
				return &Error{Code: ExitFailed, Err: fmt.Errorf("doctor: %s", number(faults, "fault")), Next: "Mend them as each line says, then look again."}
			}
			return nil
		},
	}
}

// number is a number of things, with its plural.
func number(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// examined is everything to look at: where the configuration is faulty, that alone.
func (t *Tree) examined(cmd *cobra.Command) ([]Check, error) {
	p, err := t.open(cmd, Need{Deliver: true})
	var faulty interface{ Findings() []Finding }
	if errors.As(err, &faulty) {
		return []Check{{"configuration", func(context.Context) ([]Finding, error) { return faulty.Findings(), nil }}}, nil
	}
	if err != nil {
		return nil, err
	}
	if _, err := p.outbox.Now(cmd.Context()); err != nil { // then nothing else can be told of it
		unreachable := Check{"database", func(context.Context) ([]Finding, error) { return nil, err }}
		return append([]Check{unreachable}, p.Checks...), nil
	}
	return append(p.checks(), p.Checks...), nil
}

// look makes one check and returns how many faults it found.
func (t *Tree) look(cmd *cobra.Command, c Check) (faults int, err error) {
	found, err := c.Look(cmd.Context())
	if err != nil {
		_, next := known(t.opt.Name, err)
		if next == "" {
			next = "Check that the database runs, and the address and the user in its URL."
		}
		found = append(found, Finding{What: strings.TrimPrefix(err.Error(), "consign: "), Fix: next})
	}
	if len(found) == 0 {
		return 0, t.print(cmd, findingJSON{Check: c.Name, Result: "ok"}, "ok       "+c.Name)
	}
	for _, f := range found {
		v := findingJSON{c.Name, "fault", f.What, f.Fix}
		if f.Warning {
			v.Result = "warning"
		} else {
			faults++
		}
		line := fmt.Sprintf("%-8s %s: %s\n         %s", v.Result, c.Name, f.What, f.Fix)
		if err := t.print(cmd, v, line); err != nil {
			return faults, err
		}
	}
	return faults, nil
}

// checks are those of the database.
func (p *Program) checks() []Check {
	checks := []Check{{"clock", p.clock}}
	if p.store != nil {
		checks = append(checks, Check{"schema", p.schema})
	}
	if a, ok := p.store.(adviser); ok {
		checks = append(checks, Check{"settings", func(ctx context.Context) ([]Finding, error) {
			return advised(a.Advise(ctx))
		}})
	}
	if p.desk != nil {
		checks = append(checks, Check{"served", p.served})
	}
	if h, ok := p.store.(hinter); ok {
		checks = append(checks, Check{"hints", func(ctx context.Context) ([]Finding, error) { return hinted(h.Hears(ctx)) }})
	}
	return checks
}

// adviser is a store that looks at settings: a sentence for each, "what: advice".
type adviser interface {
	Advise(ctx context.Context) ([]string, error)
}

// hinter is a store whose hints may not arrive.
type hinter interface {
	Hears(ctx context.Context) (bool, error)
}

func advised(sentences []string, err error) (found []Finding, _ error) {
	for _, s := range sentences {
		what, fix, _ := strings.Cut(s, ": ")
		found = append(found, Finding{What: what, Fix: fix})
	}
	return found, err
}

func hinted(hears bool, err error) ([]Finding, error) {
	if err != nil || hears {
		return nil, err
	}
	return []Finding{{
		What: "LISTEN hears nothing: a pooler in transaction mode is between the program and the server",
		Fix: "Deliveries of what other programs commit wait up to a second more. Connect past the pooler, " +
			"or through one in session mode, if that matters.",
		Warning: true,
	}}, nil
}

// clock compares the two clocks.
func (p *Program) clock(ctx context.Context) ([]Finding, error) {
	began := time.Now()
	theirs, err := p.outbox.Now(ctx)
	if err != nil {
		return nil, err
	}
	ended := time.Now()
	away := began.Sub(theirs) // ours is behind by less than nothing, or ahead
	if theirs.After(ended) {
		away = ended.Sub(theirs)
	} else if theirs.After(began) {
		away = 0
	}
	if away.Abs() < farClock {
		return nil, nil
	}
	side := "ahead of"
	if away < 0 {
		side = "behind"
	}
	return []Finding{{
		What: fmt.Sprintf("this machine's clock is %s %s the database's", away.Abs().Round(time.Millisecond), side),
		Fix: "Nothing in Consign depends on this machine's clock, but logs, signatures of webhooks and what people compare do: " +
			"keep both by NTP.",
		Warning: away.Abs() < time.Minute,
	}}, nil
}

// waitsLong is after how long a due intent of a kind that nobody serves is worth a
// word: a program that starts needs a moment.
const waitsLong = time.Minute

// served looks for kinds that are due and that no live program serves, and for those
// that somebody has paused.
func (p *Program) served(ctx context.Context) (found []Finding, _ error) {
	o, err := p.Operator()
	if err != nil {
		return nil, err
	}
	c, err := o.Count(ctx, 1)
	if errors.Is(err, consign.ErrSchema) {
		return nil, nil // which is told already
	}
	if err != nil {
		return nil, err
	}
	live, err := o.Serving(ctx)
	if err != nil {
		return nil, err
	}
	type kind struct {
		profile consign.Profile
		name    string
	}
	known := map[kind]bool{}
	for _, s := range live {
		known[kind{s.Profile, s.Kind}] = true
	}
	for _, pause := range c.Pauses {
		known[kind{pause.Profile, pause.Kind}] = true
		found = append(found, Finding{Warning: true,
			What: fmt.Sprintf("%s %s is paused since %s, by %s", pause.Profile, pause.Kind, moment{pause.At}, pause.By),
			Fix:  "Resume it once its reason is over."})
	}
	for _, d := range c.Due {
		if !known[kind{d.Profile, d.Kind}] && c.At.Sub(d.Oldest) > waitsLong {
			found = append(found, Finding{
				What: fmt.Sprintf("%s %s is due since %s and no live program serves it", d.Profile, d.Kind, moment{d.Oldest}),
				Fix:  "Start a program that serves it, or mend its name. Where programs run, the sweep stops it after a grace period."})
		}
	}
	return found, nil
}

// schema compares the tables with what this program knows.
func (p *Program) schema(ctx context.Context) ([]Finding, error) {
	steps, err := migrate.Status(ctx, p.store)
	if errors.Is(err, migrate.ErrNewer) {
		return []Finding{{What: "the database was migrated by a newer program that this one does not get along with", Fix: "Update this program."}}, nil
	}
	if errors.Is(err, migrate.ErrChanged) {
		return []Finding{{What: "an applied migration is not the one that this program has", Fix: "Use a released program: an applied migration is never edited."}}, nil
	}
	if err != nil {
		return nil, err
	}
	missing := 0
	for _, s := range steps {
		if s.Applied.IsZero() {
			missing++
		}
	}
	switch {
	case missing == 0:
		return nil, nil
	case missing == len(steps):
		return []Finding{{What: "the tables are missing", Fix: "Run \"migrate up\" on this database, or name the schema or prefix that they are in."}}, nil
	}
	return []Finding{{What: fmt.Sprintf("the tables are old: %d of %d steps are not applied", missing, len(steps)), Fix: "Run \"migrate up\"."}}, nil
}
