// Package pgtest gives tests a real PostgreSQL that go test starts by itself.
//
// A package that wants it says so once:
//
//	func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }
//
// and then asks for what it needs in any test:
//
//	schema := pgtest.Schema(t) // fresh, dropped when the test ends
//	pool := pgtest.Pool(t)     // closed when the test ends
//
// The first such call starts a cluster; a test binary that never asks pays
// nothing. There is one cluster per test binary, in a directory of its own
// that only the server's user can enter, reached through a unix socket in that
// directory. Settings are the durable ones of a real server: a test that kills
// it must find what was committed.
//
// The cluster belongs to a supervisor: the same test binary, started again,
// holding a pipe from its parent. However the tests end (normally, by panic,
// by timeout, by SIGKILL), the pipe closes and the supervisor stops the server
// and removes the directory. What a killed supervisor leaves behind is removed
// by the next start.
//
// Setting CONSIGN_TEST_POSTGRES to a connection URL uses that server instead.
// Schemas are still fresh per test; [Restart], [TCP] and [Bouncer] are then
// refused, because the server is not this package's to stop.
package pgtest
