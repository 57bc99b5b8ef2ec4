package bench

import (
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
	for round := range s.Config.Runs {
		add := func(sample Sample) {
			sample.Round = round + 1
			done(sample)
		}
		for _, name := range names {
			sample, err := s.run(ctx, name, drains(s.Config)[name], s.Config.N)
			if err != nil {
				return err
			}
			add(sample)
		}
		if err := s.rest(ctx, measures, add); err != nil {
			return err
		}
	}
	return s.last(ctx, measures, done)
}

// last runs what takes too long for every round, or whose rounds must be together.
func (s *Suite) last(ctx context.Context, measures []string, add func(Sample)) error {
	if slices.Contains(measures, "P9") {
		if err := s.snapshot(ctx, add); err != nil {
			return fmt.Errorf("P9: %w", err)
		}
	}
	if slices.Contains(measures, "P14") {
		add := func(sample Sample) {
			sample.Round = 1
			add(sample)
		}
		if err := s.pages(ctx, add); err != nil {
			return fmt.Errorf("P14: %w", err)
		}
	}
	return nil
}

// rest runs what is no drain in this process.
func (s *Suite) rest(ctx context.Context, measures []string, add func(Sample)) error {
	if slices.Contains(measures, "P6") {
		if err := s.enqueueing(ctx, add); err != nil {
			return fmt.Errorf("P6: %w", err)
		}
	}
	if slices.Contains(measures, "P8") {
		sample, err := s.onAged(ctx)
		if err != nil {
			return fmt.Errorf("P8: %w", err)
		}
		add(sample)
	}
	if slices.Contains(measures, "P12") {
		for _, processes := range workerCounts {
			sample, err := s.workers(ctx, processes)
			if err != nil {
				return fmt.Errorf("P12: %s: %w", sample.Subject, err)
			}
			add(sample)
		}
	}
	if slices.Contains(measures, "P13") {
		if err := s.posts(ctx, add); err != nil {
			return fmt.Errorf("P13: %w", err)
		}
	}
	if slices.Contains(measures, "P7") {
		for _, l := range latencies {
			sample, err := s.latency(ctx, l)
			if err != nil {
				return fmt.Errorf("P7: %s: %w", l.name, err)
			}
			add(sample)
		}
	}
	if slices.Contains(measures, "P10") {
		for name, sub := range lites(s.Config) {
			sample, err := s.lite(ctx, name, sub)
			if err != nil {
				return fmt.Errorf("P10: %s: %w", name, err)
			}
			add(sample)
		}
	}
	if slices.Contains(measures, "P11") {
		for _, m := range [][2]string{{WorkMemory, Work}, {RiverMemory, River}} {
			sample, err := s.memory(ctx, m[0], m[1])
			if err != nil {
				return fmt.Errorf("P11: %s: %w", m[1], err)
			}
			add(sample)
		}
	}
	return nil
}
