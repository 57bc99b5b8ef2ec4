// Command consign is the tool of the durable outbox Consign: a daemon that delivers
// beside any application, an operator's tool, and a demonstration. "consign help"
// lists its commands; docs/daemon.md begins from zero.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	_ "modernc.org/sqlite" // the command's driver; the library imports none

	"github.com/consign-go/consign/cmd/consign/internal/command"
)

// once is for how long signals count as one: some senders signal a process and then
// its group, timeout(1) among them.
const once = 300 * time.Millisecond

func main() {
	// The first signal asks for a graceful end. A moment later they do again what they
	// do by themselves, so that a second one ends the program at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, func() {
		time.Sleep(once)
		stop()
	})
	os.Exit(command.Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
