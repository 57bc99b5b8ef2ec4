package cli_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	_ "modernc.org/sqlite"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/cli"
	"github.com/consign-go/consign/sqlite"
)

// A program mounts the commands under its own outbox; here it runs three of them.
func ExampleMount() {
	dir, err := os.MkdirTemp("", "consign-example-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "app.db")+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err != nil {
		panic(err)
	}
	defer db.Close()
	store, err := sqlite.New(db, nil)
	if err != nil {
		panic(err)
	}
	outbox, err := consign.New(store, &consign.Options{Channels: []consign.Channel{{
		Name: "greetings", Deliver: func(_ context.Context, _ consign.Message, a consign.Attempt) error {
			fmt.Printf("sent %s\n", a.Request)
			return nil
		},
	}}})
	if err != nil {
		panic(err)
	}
	payload := filepath.Join(dir, "payload.json")
	if err := os.WriteFile(payload, []byte(`{"hello": "world"}`), 0o600); err != nil {
		panic(err)
	}
	var ref strings.Builder
	main := func(out interface{ Write([]byte) (int, error) }, args ...string) {
		if code := cli.Mount(outbox).Main(context.Background(), args, out, os.Stdout); code != cli.ExitDone {
			fmt.Println("exit code", code)
		}
	}
	main(os.Stdout, "migrate", "up")
	main(&ref, "enqueue", "--channel", "greetings", "--payload", payload)
	main(&ref, "visit", strings.TrimSpace(ref.String()))
	fmt.Println(strings.Fields(ref.String())[2])
	// Output:
	// applied 0001_consign
	// sent {"hello":"world"}
	// delivered
}
