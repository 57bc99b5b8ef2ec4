// Package migration brings a database's schema up or down by numbered SQL steps
// that are embedded in the program.
//
// A store describes its database as a [Target]; everything that is policy (order,
// checksums, refusing a database newer than the program) lives here, once for
// every store. All steps of a call run in one transaction under an exclusive
// lock, so that running twice, or in many processes at once, is harmless, and a
// step that fails leaves nothing behind.
package migration

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"time"
)

// Step is one numbered change of the schema.
type Step struct {
	Version  int
	Name     string
	Up       string
	Down     string
	Checksum string // SHA-256 of the files as written, before the schema's name is filled in
	Oldest   int    // programs that know less than this version must not use the result
}

// Applied is a step that a database has.
type Applied struct {
	Version  int
	Name     string
	Checksum string
	Oldest   int
	At       time.Time
}

// Dialect is how a database keeps its list of applied steps. Everything in it is
// SQL text, so that an exported script does exactly what [Up] does.
type Dialect struct {
	Create string              // makes the list, and the schema it is in, where they are missing
	Record func(s Step) string // notes a step as applied now
	Forget func(version int) string
}

// Target is a database that can be migrated.
type Target interface {
	// Steps returns the embedded steps in order, with the schema's or prefix's
	// name filled in.
	Steps() []Step

	Dialect() Dialect

	// Lock runs fn in one transaction in which no other program can migrate the
	// same schema, and commits if fn returns nil.
	Lock(ctx context.Context, fn func(ctx context.Context, s Session) error) error

	// Applied reads the applied steps in order, without creating anything; a
	// missing list is empty.
	Applied(ctx context.Context) ([]Applied, error)
}

// Session is the transaction of [Target.Lock].
type Session interface {
	Applied(ctx context.Context) ([]Applied, error)
	Exec(ctx context.Context, sql string) error // one or more statements
}

var fileName = regexp.MustCompile(`^(\d{4})_([a-z0-9_]+)\.(up|down)\.sql$`)
var oldestLine = regexp.MustCompile(`(?m)^-- oldest: (\d+)$`)

// Read reads the steps of a folder of files NNNN_name.up.sql and
// NNNN_name.down.sql. Each up file has a line "-- oldest: N". In the SQL {s}
// stands before the name of every table, view and function, and {i} before the
// name of every index and trigger that lives beside them; expand fills both in.
func Read(files fs.FS, expand func(sql string) string) ([]Step, error) {
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	byVersion := map[int]*Step{}
	for _, name := range names {
		m := fileName.FindStringSubmatch(name)
		if m == nil {
			return nil, fmt.Errorf("migration file %s is not named NNNN_name.up.sql or NNNN_name.down.sql", name)
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		version, _ := strconv.Atoi(m[1])
		s := byVersion[version]
		if s == nil {
			s = &Step{Version: version, Name: m[2]}
			byVersion[version] = s
		}
		if s.Name != m[2] {
			return nil, fmt.Errorf("migration %04d has two names, %s and %s", version, s.Name, m[2])
		}
		if m[3] == "up" {
			s.Up = string(text)
		} else {
			s.Down = string(text)
		}
	}
	return complete(byVersion, expand)
}

func complete(byVersion map[int]*Step, expand func(string) string) ([]Step, error) {
	steps := make([]Step, 0, len(byVersion))
	for v := 1; v <= len(byVersion); v++ {
		s := byVersion[v]
		if s == nil || s.Up == "" || s.Down == "" {
			return nil, fmt.Errorf("migration %04d: the up or down file is missing or empty", v)
		}
		m := oldestLine.FindStringSubmatch(s.Up)
		if m == nil {
			return nil, fmt.Errorf("migration %04d has no line \"-- oldest: N\"", v)
		}
		s.Oldest, _ = strconv.Atoi(m[1])
		sum := sha256.Sum256([]byte(s.Up + "\x00" + s.Down))
		s.Checksum = hex.EncodeToString(sum[:])
		s.Up, s.Down = expand(s.Up), expand(s.Down)
		steps = append(steps, *s)
	}
	return steps, nil
}
