// Package cli is the command tree of Consign: look at an outbox, put a message into
// it, drive deliveries, bring its tables up, find what is misconfigured.
//
// A program mounts it under its own outbox, so that the commands know the kinds and
// channels of that program:
//
//	os.Exit(cli.Mount(outbox).Main(ctx, os.Args[1:], os.Stdout, os.Stderr))
//
// A command that opens its own database, as cmd/consign does, uses [New].
//
// Results go to the standard output, one line each; with --json they are JSON, one
// value per line. Everything else goes to the other stream. Exit codes are
// [ExitDone] to [ExitNothing]. An error is two lines: what happened, and what to do
// next. Times are in UTC, as RFC 3339 has them. Every flag can be set by the
// environment too: --not-before by CONSIGN_NOT_BEFORE.
//
// No command prints a payload, a recipient or a secret.
package cli
