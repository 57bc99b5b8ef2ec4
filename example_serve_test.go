//go:build unix

package consign_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/migrate"
	"github.com/consign-go/consign/sqlite"
)

// A program that delivers until it gets a signal. The first one lets effects that
// run go on within the grace period; a second one would end the program at once.
func ExampleOutbox_Serve() {
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
	if _, err := migrate.Up(context.Background(), store); err != nil {
		log.Fatal(err)
	}
	outbox, err := consign.New(store, &consign.Options{Channels: []consign.Channel{{
		Name: "crm",
		Deliver: func(ctx context.Context, m consign.Message, a consign.Attempt) error {
			syscall.Kill(os.Getpid(), syscall.SIGTERM) // as a supervisor would, in the midst of it
			fmt.Printf("sent %s\n", a.Request)
			return nil
		},
	}}})
	if err != nil {
		log.Fatal(err)
	}
	ref, err := outbox.EnqueueNow(context.Background(), consign.Message{Channel: "crm", Payload: map[string]any{"ticket": 41}})
	if err != nil {
		log.Fatal(err)
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // from the first signal on, the next one has its usual effect
	if err := outbox.Serve(ctx); err != nil {
		log.Fatal(err)
	}

	stored, err := outbox.Find(context.Background(), ref)
	fmt.Println(stored.Status, err)
	// Output:
	// sent {"ticket":41}
	// delivered <nil>
}
