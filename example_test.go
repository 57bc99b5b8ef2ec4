package consign_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/migrate"
	"github.com/consign-go/consign/sqlite"
)

func triage(ctx context.Context, db *sql.DB, outbox *consign.Outbox[*sql.Tx], ticket int) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, `UPDATE ticket SET status = 'triaged' WHERE id = $1`, ticket); err != nil {
		return err
	}
	if _, err := outbox.Enqueue(ctx, tx, consign.Message{
		Channel: "crm", Payload: map[string]any{"event": "ticket.triaged", "ticket": ticket},
	}); err != nil {
		return err
	}
	return tx.Commit() // the row and its intent, or neither
}

// A row and its intent commit together.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "consign-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "desk.db"))
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	store, err := sqlite.New(db, nil)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := migrate.Up(ctx, store); err != nil {
		log.Fatal(err)
	}
	outbox, err := consign.New(store, nil)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := db.ExecContext(ctx, `CREATE TABLE ticket (id INTEGER PRIMARY KEY, status TEXT); INSERT INTO ticket VALUES (41, 'new')`); err != nil {
		log.Fatal(err)
	}
	if err := triage(ctx, db, outbox, 41); err != nil {
		log.Fatal(err)
	}
	var status, payload string
	err = db.QueryRowContext(ctx, `SELECT ticket.status, i.payload FROM ticket, consign_intent i`).Scan(&status, &payload)
	fmt.Println(status, payload, err)
	// Output: triaged {"event":"ticket.triaged","ticket":41} <nil>
}
