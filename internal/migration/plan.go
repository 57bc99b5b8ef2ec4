package migration

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// ErrNewer: the database was migrated by a newer program that this one does not
// get along with.
var ErrNewer = errors.New("database schema is newer than this program")

// ErrChanged: an applied step is not the one that this program has.
var ErrChanged = errors.New("an applied migration differs from this program's")

// Check compares what a database has with what the program knows. A database
// that is ahead is accepted as long as its steps say that this program still
// works with it, so that old and new programs run side by side during a deploy.
func Check(steps []Step, applied []Applied) error {
	for i, a := range applied {
		switch {
		case a.Version != i+1:
			return fmt.Errorf("%w: version %d is recorded where %d was expected", ErrChanged, a.Version, i+1)
		case i >= len(steps) && a.Oldest > len(steps):
			return fmt.Errorf("%w: it is at version %d and works with programs from version %d on, this program knows %d; "+
				"run a newer program, or take the schema down with it",
				ErrNewer, applied[len(applied)-1].Version, a.Oldest, len(steps))
		case i < len(steps) && a.Checksum != steps[i].Checksum:
			return fmt.Errorf("%w: %04d_%s was applied with checksum %.12s, here it has %.12s; "+
				"restore the released file, an applied one is never edited",
				ErrChanged, a.Version, a.Name, a.Checksum, steps[i].Checksum)
		}
	}
	return nil
}

// Up applies every step that the database does not have yet, and returns those.
func Up(ctx context.Context, t Target) ([]Step, error) {
	var done []Step
	err := t.Lock(ctx, func(ctx context.Context, s Session) error {
		done = nil
		if err := s.Exec(ctx, t.Dialect().Create); err != nil {
			return err
		}
		applied, err := s.Applied(ctx)
		if err != nil {
			return err
		}
		steps := t.Steps()
		if err := Check(steps, applied); err != nil {
			return err
		}
		for _, step := range steps[min(len(applied), len(steps)):] {
			if err := run(ctx, s, step, step.Up, t.Dialect().Record(step)); err != nil {
				return err
			}
			done = append(done, step)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return done, nil
}

// Down undoes every step above version to, newest first, and returns those.
// What is in the tables that go is lost.
func Down(ctx context.Context, t Target, to int) ([]Step, error) {
	steps := t.Steps()
	if to < 0 || to > len(steps) {
		return nil, fmt.Errorf("version %d is not one of 0 to %d", to, len(steps))
	}
	var done []Step
	err := t.Lock(ctx, func(ctx context.Context, s Session) error {
		done = nil
		applied, err := s.Applied(ctx)
		if err != nil {
			return err
		}
		if err := Check(steps, applied); err != nil {
			return err
		}
		if len(applied) > len(steps) {
			return fmt.Errorf("%w: it is at version %d, this program knows %d; take it down with the program that brought it up",
				ErrNewer, len(applied), len(steps))
		}
		for v := len(applied); v > to; v-- {
			step := steps[v-1]
			if err := run(ctx, s, step, step.Down, t.Dialect().Forget(v)); err != nil {
				return err
			}
			done = append(done, step)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return done, nil
}

func run(ctx context.Context, s Session, step Step, sql, note string) error {
	for _, text := range []string{sql, note} {
		if err := s.Exec(ctx, text); err != nil {
			return fmt.Errorf("%04d_%s: %w", step.Version, step.Name, err)
		}
	}
	return nil
}

// Script returns all steps up, or down, as one text for teams whose own tool
// applies migrations. It keeps the list of applied steps as [Up] and [Down] do.
func Script(t Target, down bool) string {
	var b strings.Builder
	steps, d := t.Steps(), t.Dialect()
	if !down {
		b.WriteString(strings.TrimSpace(d.Create) + "\n\n")
	}
	for i := range steps {
		if down {
			step := steps[len(steps)-1-i]
			b.WriteString(strings.TrimSpace(step.Down) + "\n" + d.Forget(step.Version) + "\n\n")
			continue
		}
		b.WriteString(strings.TrimSpace(steps[i].Up) + "\n\n" + d.Record(steps[i]) + "\n\n")
	}
	return b.String()
}
