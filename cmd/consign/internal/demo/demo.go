// Package demo is a guided tour of what Consign promises: a support desk on a
// throw-away SQLite file, a CRM behind real HTTP with a database of its own, and a
// process that is really killed. Everything it says it has checked in the tables of
// both ends.
package demo

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/console"
	"github.com/consign-go/consign/examples/supportdesk"
	"github.com/consign-go/consign/migrate"
	"github.com/consign-go/consign/operator"
	"github.com/consign-go/consign/sqlite"
)

// desk is a support desk with one database.
type desk struct {
	*supportdesk.Desk
	path   string
	db     *sql.DB
	people *operator.Operator
	pages  *console.Console
	crm    *crm
	notice consign.Ref // the work that the operation left
}

// step is one promise: do does it, checks it and says what was seen.
type step struct {
	promise string
	do      func(ctx context.Context, d *desk) (seen string, err error)
}

var steps = []step{
	{"a ticket is triaged: the row and the intent to tell the CRM commit together", together},
	{"the transaction rolls back: neither is there", rolledBack},
	{"a batch with one bad message is refused whole, naming field and limit", refused},
	{"a call repeated after a lost answer finds its own message; other content conflicts", repeated},
	{"an admitted operation leaves its row, its work and its receipt, all or nothing", operation},
	{"its work is delivered once the authority has said yes again, with the bytes that were digested", delivered},
	{"a process dies after the CRM has acted and before that is known: the next one sends the same bytes under the same key", killed},
	{"a receiver hangs up without an answer: it is called unknown, tried by nobody, and goes to a person", unknown},
	{"a record that was edited after the commit: its work is not delivered as if nothing had been", edited},
	{"an actor who lost the authority runs nothing, and what waits on the actor's behalf is cancelled", revoked},
}

// Run shows every step and returns an error if a promise did not hold. Then, if
// that is wanted, it shows the database in the web console until ctx ends. It needs
// a database/sql driver named "sqlite", which the command brings along.
func Run(ctx context.Context, out io.Writer, keep bool) (err error) {
	if raw := os.Getenv(workerEnv); raw != "" {
		return work(ctx, raw)
	}
	dir, err := os.MkdirTemp("", "consign-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	d, err := open(ctx, dir)
	if err != nil {
		return err
	}
	defer d.close()
	fmt.Fprintf(out, "A support desk on one SQLite file: its tickets and Consign's tables share the database.\n"+
		"A CRM at %s, with a database of its own.\n\n", d.crm.url)
	for i, s := range steps {
		fmt.Fprintf(out, "%d. %s\n", i+1, s.promise)
		seen, err := s.do(ctx, d)
		if err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
		fmt.Fprintf(out, "   ok: %s\n", seen)
	}
	fmt.Fprintf(out, "\nAll %d promises were checked in the tables of both ends, and held.\n", len(steps))
	if keep {
		return d.show(ctx, out)
	}
	return nil
}

func openSQLite(path string) (*sql.DB, error) {
	return sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(5000)&_txlock=immediate")
}

func open(ctx context.Context, dir string) (*desk, error) {
	d := &desk{path: filepath.Join(dir, "desk.db")}
	var err error
	if d.db, err = openSQLite(d.path); err != nil {
		return nil, err
	}
	if d.crm, err = openCRM(ctx, dir); err != nil {
		return nil, errors.Join(err, d.db.Close())
	}
	if err := d.prepare(ctx); err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

func (d *desk) close() {
	d.crm.close()
	d.db.Close()
}

func (d *desk) prepare(ctx context.Context) error {
	store, err := sqlite.New(d.db, nil)
	if err != nil {
		return err
	}
	if _, err := migrate.Up(ctx, store); err != nil {
		return err
	}
	if d.people, err = operator.New(store); err != nil {
		return err
	}
	if d.pages, err = console.New(store, &console.Options{Path: "/console", Title: "demonstration"}); err != nil {
		return err
	}
	crm, sms, err := endpoints(d.crm.url)
	if err != nil {
		return err
	}
	if d.Desk, err = supportdesk.New(d.db, store, supportdesk.Options{CRM: crm, Channels: channels(crm, sms)}); err != nil {
		return err
	}
	return d.begin(ctx)
}

// begin makes the desk's tables: who works there, and three tickets.
func (d *desk) begin(ctx context.Context) error {
	err := errors.Join(
		d.Create(ctx), d.AddTenant(ctx, "acme"),
		d.Hire(ctx, "acme", "7", supportdesk.ProposeTriage, supportdesk.RunTriage, supportdesk.DeliverTriage),
		d.Hire(ctx, "acme", "8", supportdesk.ConfirmTriage))
	for _, ticket := range []string{"41", "42", "43"} {
		err = errors.Join(err, d.File(ctx, "acme", ticket, ""))
	}
	return err
}

// status reads a ticket's status.
func (d *desk) status(ctx context.Context, ticket int) (status string, err error) {
	err = d.db.QueryRowContext(ctx, `SELECT status FROM ticket WHERE id = ?`, ticket).Scan(&status)
	return status, err
}

// intents counts the intents that are stored.
func (d *desk) intents(ctx context.Context) (n int, err error) {
	err = d.db.QueryRowContext(ctx, `SELECT count(*) FROM consign_intent`).Scan(&n)
	return n, err
}

// expect compares the tables with what a promise says.
func (d *desk) expect(ctx context.Context, ticket int, status string, intents int) error {
	s, err := d.status(ctx, ticket)
	if err != nil {
		return err
	}
	n, err := d.intents(ctx)
	if err != nil {
		return err
	}
	if s != status || n != intents {
		return fmt.Errorf("ticket %d is %s with %d intents stored, expected %s with %d", ticket, s, n, status, intents)
	}
	return nil
}
