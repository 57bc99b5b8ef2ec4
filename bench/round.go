package bench

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/consign-go/consign"
)

// The names of the subjects in tables and results.
const (
	Work        = "consign work"
	WorkLarge   = "consign work, large payload"
	Messages    = "consign messages, in process"
	MessagesOn  = "consign messages, on schedule"
	Floor       = "floor"
	River       = "river"
	PlainRow    = "plain outbox row"
	ConsignRow  = "consign enqueue"
	WorkMemory  = "consign memory"
	RiverMemory = "river memory"
	WorkLite    = "consign work, sqlite"
	RiverLite   = "river, sqlite"

	LatencyWoken    = "consign latency, same process"
	LatencyNotified = "consign latency, other process"
	LatencyPolled   = "consign latency, polling"
	WorkAged        = "consign work, on old rows"
	WorkProbed      = "consign work, beside queries"
	WorkSnapshot    = "consign work, old snapshot"
	Workers         = "consign work" // and of how many processes
	BarePost        = "bare post"    // and over what connections
	Post            = "consign post"
	Hooks           = "consign webhook"
	Console         = "console" // and which page
	RiverLatency    = "river latency, other process"

	manyClients = " (many clients)"
)

// drains are the subjects that drain a backlog in PostgreSQL.
func drains(c Config) map[string]subject[*pgxpool.Pool] {
	return map[string]subject[*pgxpool.Pool]{
		Work:       work{c, c.Payload},
		WorkLarge:  work{c, c.Large},
		Messages:   messages{c, consign.InProcess},
		MessagesOn: messages{c, consign.OnSchedule},
		Floor:      floor{work{c, c.Payload}},
		River:      riverQueue{c},
	}
}

// Measures are what can be asked for, in the order in which they run.
var Measures = []string{"P1", "P2", "P3", "P4", "P5", "P6", "P7", "P8", "P9", "P10", "P11", "P12", "P13", "P14"}

// subjects are whom a measure needs, in turn.
var subjects = map[string][]string{
	"P1":  {River, Work},
	"P2":  {River, Messages, MessagesOn},
	"P3":  {Work, WorkLarge},
	"P4":  {Work, Floor},
	"P5":  {River, Work, Messages},
	"P8":  {Work},
	Speed: {River, Work, Floor, Messages},
}

// stage takes one measure, or one round of it.
type stage struct {
	measure string
	take    func(ctx context.Context, add func(Sample)) error
}

// inRounds are the measures that are more than drains in this process.
func (s *Suite) inRounds() []stage {
	return []stage{
		{"P6", s.enqueueing}, {"P7", s.latencies}, {"P8", s.onAged}, {"P10", s.lites}, {"P12", s.processes}, {"P13", s.posts},
	}
}

// once are the measures whose figures are no ratios, or whose rounds must be
// together.
func (s *Suite) once() []stage {
	return []stage{{"P9", s.snapshot}, {"P11", s.memories}, {"P14", s.pages}}
}

// Run runs every round of the measures, and calls done with each sample.
func (s *Suite) Run(ctx context.Context, measures []string, done func(Sample)) error {
	var names []string
	for _, m := range measures {
		for _, name := range subjects[m] {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	take := func(stages []stage, round int) error {
		for _, st := range stages {
			if !slices.Contains(measures, st.measure) {
				continue
			}
			err := st.take(ctx, func(sample Sample) {
				sample.Round = cmp.Or(sample.Round, round)
				done(sample)
			})
			if err != nil {
				return fmt.Errorf("%s: %w", st.measure, err)
			}
		}
		return nil
	}
	for round := range s.Config.Runs {
		for _, name := range names {
			sample, err := s.run(ctx, name, drains(s.Config)[name], s.Config.N)
			if err != nil {
				return err
			}
			sample.Round = round + 1
			done(sample)
		}
		if err := take(s.inRounds(), round+1); err != nil {
			return err
		}
	}
	return take(s.once(), 1)
}
