// Package migrate brings the tables of a Consign store up or down.
//
// The SQL is embedded, numbered and checksummed. [Up] may run at every start of
// every instance of a program: whoever comes first does the work, the others
// wait for it and find nothing left to do. A database that a newer program
// migrated is accepted for as long as its schema still works with this one, and
// refused with advice after that.
//
// Teams that apply migrations with a tool of their own take them from [SQL].
package migrate

import (
	"context"
	"fmt"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/migration"
)

// Store is an open store: what postgres.New, postgres.NewSQL and sqlite.New
// return.
type Store interface {
	Migrations(driver.Key) migration.Target
}

// Errors to branch on with errors.Is.
var (
	// ErrNewer: the database was migrated by a newer program, and its schema no
	// longer works with this one.
	ErrNewer = migration.ErrNewer
	// ErrChanged: a migration that was applied is not the one this program has.
	ErrChanged = migration.ErrChanged
)

// Step is one numbered change of the schema.
type Step struct {
	Version int
	Name    string
	Applied time.Time // of Status: when it was applied, zero if it was not
}

// Up applies every step that the database does not have yet and returns those.
// All of them commit together or none does.
func Up(ctx context.Context, s Store) ([]Step, error) {
	done, err := migration.Up(ctx, s.Migrations(driver.Key{}))
	return steps("up", done, err)
}

// Down undoes every step above version to (0 to all), newest first, and returns
// those. It drops tables with what is in them.
func Down(ctx context.Context, s Store, to int) ([]Step, error) {
	done, err := migration.Down(ctx, s.Migrations(driver.Key{}), to)
	return steps("down", done, err)
}

func steps(op string, done []migration.Step, err error) ([]Step, error) {
	if err != nil {
		return nil, fmt.Errorf("consign: migrate %s: %w", op, err)
	}
	out := make([]Step, len(done))
	for i, s := range done {
		out[i] = Step{Version: s.Version, Name: s.Name}
	}
	return out, nil
}

// Status returns every step that this program knows or the database has, in
// order. It changes nothing, and returns the steps together with ErrNewer or
// ErrChanged where the two do not get along.
func Status(ctx context.Context, s Store) ([]Step, error) {
	t := s.Migrations(driver.Key{})
	applied, err := t.Applied(ctx)
	if err != nil {
		return nil, fmt.Errorf("consign: migrate status: %w", err)
	}
	known := t.Steps()
	out := make([]Step, 0, max(len(known), len(applied)))
	for i := range max(len(known), len(applied)) {
		var step Step
		if i < len(known) {
			step.Version, step.Name = known[i].Version, known[i].Name
		}
		if i < len(applied) {
			step = Step{Version: applied[i].Version, Name: applied[i].Name, Applied: applied[i].At}
		}
		out = append(out, step)
	}
	if err := migration.Check(known, applied); err != nil {
		return out, fmt.Errorf("consign: migrate status: %w", err)
	}
	return out, nil
}

// SQL returns the script that Up would run on an empty database, or with down
// the one that undoes everything, with the store's schema or prefix filled in.
func SQL(s Store, down bool) string { return migration.Script(s.Migrations(driver.Key{}), down) }
