// Package plainsqltest shows that a message enqueued by plain SQL is the message
// that the Go call would have written: the same rows, the same refusals, the same
// canonical bytes and digest, on PostgreSQL and on SQLite.
package plainsqltest
