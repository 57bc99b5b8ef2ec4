package reply_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/migrate"
	"github.com/consign-go/consign/reply"
	"github.com/consign-go/consign/sqlite"
)

// A reply is recorded when its turn ends, and sent by whoever wins its claim.
func Example() {
	ctx := context.Background()
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		panic(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	store, err := sqlite.New(db, nil)
	if err != nil {
		panic(err)
	}
	if _, err := migrate.Up(ctx, store); err != nil {
		panic(err)
	}
	replies, err := reply.New(store, nil)
	if err != nil {
		panic(err)
	}
	created, err := replies.Create(ctx, reply.Message{
		Channel: "relay", To: "https://example.org/callback", Task: "turn 7", Session: "session 9",
		Payload: map[string]any{"text": "It will be there on Monday."},
	})
	if err != nil {
		panic(err)
	}

	claim, won, err := replies.Claim(ctx, created.ID)
	if err != nil || !won {
		panic(err)
	}
	fmt.Println("to", claim.Record().To, "send", string(claim.Attempt().Request))
	after, err := claim.RecordAttempt(ctx, consign.Refused(errors.New("status 503"), 0)) // what the first attempt came to
	if err != nil {
		panic(err)
	}
	fmt.Println(after.Status, after.Attempts, after.LastError)
	after, err = claim.MarkDelivered(ctx) // the second one was accepted
	if err != nil {
		panic(err)
	}
	fmt.Println(after.Status, after.Attempts)

	purged, err := replies.PurgeSessions(ctx, "session 9")
	if err != nil {
		panic(err)
	}
	_, found, err := replies.Find(ctx, created.ID)
	if err != nil {
		panic(err)
	}
	fmt.Println("purged", purged, "found", found)
	// Output:
	// to https://example.org/callback send {"text":"It will be there on Monday."}
	// delivering 1 refused: status 503
	// delivered 2
	// purged 1 found false
}
