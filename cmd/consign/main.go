// Command consign is the command-line tool of the durable outbox Consign.
//
// Today it has one command: demo, which shows on an embedded SQLite file what
// Consign promises at the moment of a commit, and checks it.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"

	_ "modernc.org/sqlite" // the command's driver; the library imports none

	"github.com/consign-go/consign/cmd/consign/internal/demo"
)

const usage = `usage: consign demo

  demo   commit intents with rows on a throw-away SQLite file and check every promise shown
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run returns 0 if the command did its work, 1 if it failed, 2 if it was not
// understood.
func run(ctx context.Context, args []string, out, errOut io.Writer) int {
	if len(args) == 1 && (args[0] == "help" || args[0] == "-h" || args[0] == "--help") {
		fmt.Fprint(out, usage)
		return 0
	}
	if len(args) != 1 || args[0] != "demo" {
		fmt.Fprint(errOut, usage)
		return 2
	}
	if err := demo.Run(ctx, out); err != nil {
		fmt.Fprintf(errOut, "consign: demo: %v\nA promise did not hold, or the demonstration could not run. Nothing outside its temporary folder was touched.\n", err)
		return 1
	}
	return 0
}
