package sqlite

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"strconv"
	"time"

	"github.com/consign-go/consign/internal/migration"
)

//go:embed sql/*.sql
var embedded embed.FS

func files() fs.FS {
	folder, err := fs.Sub(embedded, "sql")
	if err != nil {
		panic(err) // the folder is compiled in
	}
	return folder
}

// migrationPatience is how long a migration waits for another one. It is not a busy
// moment of a running program but the start of one, where minutes may pass.
const migrationPatience = time.Minute

// target is the database as package migration sees it.
type target struct{ e *engine }

var _ migration.Target = target{}

// Steps returns the embedded steps.
func (t target) Steps() []migration.Step { return t.e.steps }

// createSQL makes the list of applied steps.
const createSQL = `CREATE TABLE IF NOT EXISTS {s}migration (
    version    INTEGER PRIMARY KEY,
    name       TEXT NOT NULL,
    checksum   TEXT NOT NULL,
    oldest     INTEGER NOT NULL,
    applied_at INTEGER NOT NULL
) STRICT;`

// Dialect says how the list of applied steps is kept. It goes with the first step,
// so that a database that was taken down holds nothing of ours.
func (t target) Dialect() migration.Dialect {
	return migration.Dialect{
		Create: t.e.sql(createSQL),
		Record: func(s migration.Step) string {
			return t.e.sql(fmt.Sprintf("INSERT INTO {s}migration (version, name, checksum, oldest, applied_at)\n"+
				"VALUES (%d, '%s', '%s', %d, {now});", s.Version, s.Name, s.Checksum, s.Oldest))
		},
		Forget: func(version int) string {
			if version == 1 {
				return t.e.sql("DROP TABLE {s}migration;")
			}
			return t.e.sql("DELETE FROM {s}migration WHERE version = " + strconv.Itoa(version) + ";")
		},
	}
}

// Lock runs fn in one transaction that holds the write lock.
func (t target) Lock(ctx context.Context, fn func(ctx context.Context, s migration.Session) error) error {
	return t.e.fault("migrate", t.e.inTurn(ctx, migrationPatience, func(p *wait) error {
		conn, err := t.e.take(ctx, p)
		if err != nil {
			return err
		}
		h := &holder{conn: conn}
		defer h.giveBack(ctx) // also where fn panics; it rolls back what is not committed
		if err := h.beginImmediate(ctx, p); err != nil {
			return err
		}
		s := t.e.onConn(conn)
		defer s.close() // a statement that is left open keeps the file open past the pool's end
		if err := fn(ctx, migrating{s}); err != nil {
			return err
		}
		_, err = conn.ExecContext(ctx, "COMMIT")
		return err
	}))
}

// beginImmediate is begin without a table to lock: there may be none yet.
func (h *holder) beginImmediate(ctx context.Context, p *wait) error {
	for {
		if err := h.limit(ctx, p); err != nil {
			return err
		}
		_, err := h.conn.ExecContext(ctx, "BEGIN IMMEDIATE")
		if err == nil {
			return h.restore(ctx)
		}
		if err := p.again(ctx, err); err != nil {
			return err
		}
	}
}

// Applied reads the applied steps.
func (t target) Applied(ctx context.Context) (list []migration.Applied, err error) {
	err = t.e.read(ctx, "migrations", func(ctx context.Context, s *session) (err error) {
		list, err = migrating{s}.Applied(ctx)
		return err
	})
	return list, err
}

// migrating is the transaction of Lock.
type migrating struct{ s *session }

const listedSQL = `SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = '{s}migration'`

const appliedSQL = `SELECT version, name, checksum, oldest, applied_at FROM {s}migration ORDER BY version`

// Applied reads the applied steps; a missing list is empty.
func (m migrating) Applied(ctx context.Context) ([]migration.Applied, error) {
	if listed, err := m.s.number(ctx, listedSQL); err != nil || listed == 0 {
		return nil, err
	}
	var list []migration.Applied
	err := m.s.query(ctx, appliedSQL, nil, 5, func(v []any) (bool, error) {
		list = append(list, migration.Applied{
			Version: int(whole(v[0])), Name: text(v[1]), Checksum: text(v[2]), Oldest: int(whole(v[3])), At: instant(v[4]),
		})
		return true, nil
	})
	return list, err
}

// Exec runs one or more statements.
func (m migrating) Exec(ctx context.Context, sql string) error {
	_, err := m.s.on.ExecContext(ctx, sql)
	return err
}
