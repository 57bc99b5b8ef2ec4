package suite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/consign-go/consign/internal/driver"
)

// Views shows that a view is really read-only, and that the pool is as it was when
// it is over, however it ends.
func Views(t *testing.T, l Library) {
	for _, c := range []struct {
		name string
		run  func(t *testing.T, v *viewer)
	}{
		{"read-only is ignored where it is only asked for", plainReadOnly},
		{"a write through a view fails", viewFails},
		{"a panic leaves the pool whole", viewPanics},
		{"a function that ends the transaction", viewEnds},
		{"a transaction that ends inside a view", viewCancelled},
		{"a view inside a view", viewNested},
		{"the program's own query_only stays", viewKeeps},
		{"a driver that locks as it begins", viewUnderLock},
	} {
		for _, conns := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s, pool of %d", c.name, conns), func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "view.db")
				db := l.Open(t, path, conns)
				bound := Migrated(t, db, "").Driver(driver.Key{})
				if _, err := db.Exec("CREATE TABLE note (text TEXT)"); err != nil {
					t.Fatal(err)
				}
				c.run(t, &viewer{l: l, db: db, bound: bound, path: path, conns: conns})
			})
		}
	}
}

// viewer is a database whose views are looked at.
type viewer struct {
	l     Library
	db    *sql.DB
	bound driver.Bound[*sql.Tx]
	path  string
	conns int
}

const writeNote = "INSERT INTO note (text) VALUES ('written')"

// whole checks that every connection of the pool writes, and that n notes are there.
func (v *viewer) whole(t *testing.T, n int) {
	t.Helper()
	if in := v.db.Stats().InUse; in != 0 {
		t.Fatalf("%d connections are in use", in)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var held []*sql.Conn
	for range v.conns {
		c, err := v.db.Conn(ctx)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, c)
	}
	for _, c := range held {
		if _, err := c.ExecContext(ctx, "UPDATE note SET text = text"); err != nil {
			t.Errorf("a connection of the pool does not write any more: %v", err)
		}
		if _, err := c.ExecContext(ctx, "BEGIN; ROLLBACK"); err != nil {
			t.Errorf("a connection of the pool has a transaction open: %v", err)
		}
		c.Close()
	}
	var got int
	if err := v.db.QueryRow("SELECT count(*) FROM note").Scan(&got); err != nil || got != n {
		t.Errorf("%d notes are there, want %d: %v", got, n, err)
	}
}

// inTx runs fn in a transaction of the program, which is committed.
func (v *viewer) inTx(t *testing.T, ctx context.Context, fn func(tx *sql.Tx)) {
	t.Helper()
	tx, err := v.db.BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	fn(tx)
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

func mustRefuse(t *testing.T, tx *sql.Tx) {
	t.Helper()
	for _, write := range []string{writeNote, "UPDATE note SET text = 'x'", "DELETE FROM note", "CREATE TABLE t (x)", "DROP TABLE note"} {
		if _, err := tx.Exec(write); err == nil || !strings.Contains(err.Error(), "readonly database") {
			t.Errorf("%s: %v, want it refused", write, err)
		}
	}
}

// plainReadOnly is why views do not rely on the option of database/sql.
func plainReadOnly(t *testing.T, v *viewer) {
	tx, err := v.db.BeginTx(t.Context(), &sql.TxOptions{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(writeNote); err != nil {
		t.Errorf("the option is heeded now (%v): query_only may no longer be needed", err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	v.whole(t, 1)
}

func viewFails(t *testing.T, v *viewer) {
	err := v.bound.View(t.Context(), func(tx *sql.Tx) error { mustRefuse(t, tx); return nil })
	if err != nil {
		t.Error(err)
	}
	v.whole(t, 0)
	v.inTx(t, t.Context(), func(tx *sql.Tx) {
		if err := v.bound.ViewIn(t.Context(), tx, func(tx *sql.Tx) error { mustRefuse(t, tx); return nil }); err != nil {
			t.Error(err)
		}
		if _, err := tx.Exec(writeNote); err != nil {
			t.Errorf("after the view: %v", err)
		}
	})
	v.whole(t, 1)
}

func viewPanics(t *testing.T, v *viewer) {
	panicking := func(fn func(panics func(*sql.Tx) error) error) {
		defer func() {
			if p := recover(); p != "user code" {
				t.Errorf("recovered %v", p)
			}
		}()
		fn(func(tx *sql.Tx) error { mustRefuse(t, tx); panic("user code") })
	}
	panicking(func(fn func(*sql.Tx) error) error { return v.bound.View(t.Context(), fn) })
	v.whole(t, 0)
	v.inTx(t, t.Context(), func(tx *sql.Tx) {
		panicking(func(fn func(*sql.Tx) error) error { return v.bound.ViewIn(t.Context(), tx, fn) })
		if _, err := tx.Exec(writeNote); err != nil {
			t.Errorf("after the panic: %v", err)
		}
	})
	v.whole(t, 1)
}

func viewEnds(t *testing.T, v *viewer) {
	for _, end := range []func(tx *sql.Tx) error{
		(*sql.Tx).Commit, (*sql.Tx).Rollback,
		func(tx *sql.Tx) error { _, err := tx.Exec("COMMIT"); return err },
	} {
		if err := v.bound.View(t.Context(), end); err != nil {
			t.Error(err)
		}
		v.whole(t, 0)
	}
	for _, end := range []func(tx *sql.Tx) error{(*sql.Tx).Commit, (*sql.Tx).Rollback} {
		tx, err := v.db.Begin()
		if err != nil {
			t.Fatal(err)
		}
		if err := v.bound.ViewIn(t.Context(), tx, end); !errors.Is(err, driver.ErrClosed) {
			t.Errorf("a view in a transaction that ends inside: %v, want ErrClosed", err)
		}
		v.whole(t, 0)
		tx, own, err := v.bound.Begin(t.Context()) // on a connection that is in nobody's reach meanwhile
		if err != nil {
			t.Fatal(err)
		}
		if err := v.bound.ViewIn(t.Context(), tx, end); !errors.Is(err, driver.ErrClosed) {
			t.Errorf("a view in an own transaction that ends inside: %v, want ErrClosed", err)
		}
		own.Rollback(t.Context())
		v.whole(t, 0)
	}
}

// viewCancelled: database/sql rolls a transaction back by itself when the context
// ends that it was begun with.
func viewCancelled(t *testing.T, v *viewer) {
	ctx, cancel := context.WithCancel(t.Context())
	tx, err := v.db.BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = v.bound.ViewIn(ctx, tx, func(tx *sql.Tx) error {
		cancel()
		for { // until the rollback has come
			if _, err := tx.ExecContext(t.Context(), "SELECT 1"); errors.Is(err, sql.ErrTxDone) {
				return err
			}
		}
	})
	if !errors.Is(err, sql.ErrTxDone) {
		t.Errorf("view: %v", err)
	}
	v.whole(t, 0)

	ctx, cancel = context.WithCancel(t.Context())
	err = v.bound.View(ctx, func(tx *sql.Tx) error {
		cancel()
		_, err := tx.ExecContext(ctx, "SELECT 1")
		return err
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("view: %v", err)
	}
	v.whole(t, 0)
	if err := v.bound.View(ctx, func(*sql.Tx) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("a view whose context has ended: %v", err)
	}
}

func viewNested(t *testing.T, v *viewer) {
	v.inTx(t, t.Context(), func(tx *sql.Tx) {
		err := v.bound.ViewIn(t.Context(), tx, func(tx *sql.Tx) error {
			err := v.bound.ViewIn(t.Context(), tx, func(tx *sql.Tx) error { return nil })
			mustRefuse(t, tx)
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
	v.whole(t, 0)
}

func viewKeeps(t *testing.T, v *viewer) {
	c, err := v.db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.ExecContext(t.Context(), "PRAGMA query_only = 1"); err != nil {
		t.Fatal(err)
	}
	tx, err := c.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := v.bound.ViewIn(t.Context(), tx, func(*sql.Tx) error { return nil }); err != nil {
		t.Error(err)
	}
	mustRefuse(t, tx)
	tx.Rollback()
	if _, err := c.ExecContext(t.Context(), "PRAGMA query_only = 0"); err != nil {
		t.Fatal(err)
	}
}

// viewUnderLock: the data source name may ask for the write lock whenever a
// transaction begins. A view gets around that, and holds up no writer.
func viewUnderLock(t *testing.T, v *viewer) {
	locking, err := sql.Open(v.l.Driver, v.l.DSN(v.path, 5000)+"&_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	defer locking.Close()
	locking.SetMaxOpenConns(v.conns)
	other := &viewer{l: v.l, db: locking, bound: Migrated(t, locking, "").Driver(driver.Key{}), path: v.path, conns: v.conns}
	err = other.bound.View(t.Context(), func(tx *sql.Tx) error {
		mustRefuse(t, tx)
		_, err := v.db.Exec(writeNote) // another connection writes meanwhile
		return err
	})
	if err != nil {
		t.Error(err)
	}
	other.whole(t, 1)
	other.inTx(t, t.Context(), func(tx *sql.Tx) {
		if err := other.bound.ViewIn(t.Context(), tx, func(tx *sql.Tx) error { mustRefuse(t, tx); return nil }); err != nil {
			t.Error(err)
		}
	})
	other.whole(t, 1)
}
