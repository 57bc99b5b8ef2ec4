package bench

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Curve is how cost grows with one thing.
type Curve struct {
	Name   string
	Title  string // of its chart
	X      string // what grows
	Items  string // what is drained
	points func(c Config) []point
}

// point is one run of a curve.
type point struct {
	at     float64
	config Config
	n      int
	sub    subject[*pgxpool.Pool]
}

// curves are all of them, in the order in which they run.
var curves = []Curve{
	{"backlog", "Cost by backlog", "intents in the backlog", "work", backlogPoints},
	{"payload", "Cost by payload", "bytes in each payload", "messages", payloadPoints},
	{"workers", "Cost by workers", "deliveries in hand at once", "messages", workerPoints},
	{"kinds", "Cost by kinds", "channels that have a backlog", "messages", kindPoints},
	{"order", "Cost by length of tasks", "messages in each task, in order", "messages", orderPoints},
	{"retries", "Cost by failures", "% of the attempts that fail", "attempts", retryPoints},
	{"attempts", "Cost by attempts", "attempts that each message takes", "attempts", attemptPoints},
	{"retention", "Cost beside retention", "sessions that prune meanwhile", "messages", retentionPoints},
}

// Curves are the names of the growth curves.
var Curves = func() (names []string) {
	for _, c := range curves {
		names = append(names, c.Name)
	}
	return names
}()

// CurveOf returns a growth curve by its name.
func CurveOf(name string) (Curve, bool) {
	i := slices.Index(Curves, name)
	if i < 0 {
		return Curve{}, false
	}
	return curves[i], true
}

// grow takes the curves among measures, each point once.
func (s *Suite) grow(ctx context.Context, measures []string, done func(Sample)) error {
	for _, c := range curves {
		if !slices.Contains(measures, c.Name) {
			continue
		}
		for _, p := range c.points(s.Config) {
			sample, err := s.point(ctx, c, p)
			if err != nil {
				return fmt.Errorf("at %g %s: %w", p.at, c.X, err)
			}
			done(sample)
		}
	}
	return nil
}

// point takes one point.
func (s *Suite) point(ctx context.Context, c Curve, p point) (Sample, error) {
	one := *s
	one.Config = p.config
	out, err := one.run(ctx, c.Name, p.sub, p.n)
	out.Round, out.Curve, out.Point, out.Items = 1, c.Name, p.at, int64(p.n)
	if l, ok := p.sub.(*load); ok {
		out.Items, out.Removed, out.Partial = l.done, l.removed, l.undone > 0
		out.PerSec = float64(l.done) / out.Drain.Seconds
	}
	return out, err
}
