package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/migration"
)

// Options are the optional parts of a [Store]. The zero value works.
type Options struct {
	// Prefix begins the name of every table, index, trigger and view, so that
	// several outboxes share a file. It consists of lower-case letters, digits and
	// underscores, begins with no digit and not with "sqlite_", and has at most 31
	// bytes. Default: "consign_".
	Prefix string
}

// Store is an outbox in an SQLite database. It is safe for concurrent use, holds
// no connection while it is idle and runs nothing by itself.
type Store struct{ engine *engine }

var prefixRule = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,30}$`)

// New returns the store of the tables that begin with the prefix in db. It does no
// IO and does not take db over: the program opens and closes it.
func New(db *sql.DB, o *Options) (*Store, error) {
	prefix := "consign_"
	if o != nil && o.Prefix != "" {
		prefix = o.Prefix
	}
	if db == nil {
		return nil, errors.New("consign: sqlite: new: the database is nil")
	}
	if !prefixRule.MatchString(prefix) || strings.HasPrefix(prefix, "sqlite_") {
		return nil, fmt.Errorf("consign: sqlite: new: prefix %q, want 1 to 31 of a-z, 0-9 and _, no digit first, not sqlite_", prefix)
	}
	e := &engine{
		db: db, prefix: prefix, budget: busyBudget,
		names:   strings.NewReplacer("{s}", prefix, "{i}", prefix, "{now}", clock),
		writing: make(chan struct{}, 1),
	}
	steps, err := migration.Read(files(), e.sql)
	if err != nil {
		return nil, fmt.Errorf("consign: sqlite: new: %w", err)
	}
	e.steps = steps
	return &Store{e}, nil
}

// Driver is for package consign.
func (s *Store) Driver(driver.Key) driver.Bound[*sql.Tx] { return s.engine }

// Migrations is for package migrate.
func (s *Store) Migrations(driver.Key) migration.Target { return target{s.engine} }

// Advise reads the settings of a connection and returns one sentence for each that
// differs from what the package recommends; none is good news. It changes nothing.
func (s *Store) Advise(ctx context.Context) ([]string, error) {
	var advice []string
	err := s.engine.read(ctx, "advise", func(ctx context.Context, ss *session) error {
		advice = nil
		for _, setting := range recommended {
			var value string
			if err := ss.on.QueryRowContext(ctx, setting.query).Scan(&value); err != nil {
				return err
			}
			if !setting.good(value) {
				advice = append(advice, fmt.Sprintf("%s is %s: %s", setting.name, value, setting.advice))
			}
		}
		return nil
	})
	return advice, err
}

// recommended are the settings that Advise looks at.
var recommended = []struct {
	name, query string
	good        func(value string) bool
	advice      string
}{
	{
		"journal_mode", "PRAGMA journal_mode", func(v string) bool { return v == "wal" || v == "memory" },
		"with WAL readers and the writer do not wait for each other",
	},
	{
		"synchronous", "PRAGMA synchronous", func(v string) bool { return v >= "2" },
		"below FULL (2) a loss of power can take back what was acknowledged",
	},
	{
		"encoding", "PRAGMA encoding", func(v string) bool { return v == "UTF-8" },
		"the tables limit lengths in bytes of UTF-8, and refuse shorter texts in another encoding",
	},
	{
		"busy_timeout", "PRAGMA busy_timeout", func(v string) bool { return v != "0" },
		"with 0 the program's own transactions fail at once while another one writes",
	},
}
