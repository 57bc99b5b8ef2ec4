package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/consign-go/consign/internal/driver"
)

// Advise looks at the pool and the server's settings and returns one sentence for
// each that differs from what the package recommends, "what: why"; none is good
// news. It changes nothing.
func (s *Store) Advise(ctx context.Context) ([]string, error) { return s.bound.advise(ctx) }

// Advise is [Store.Advise].
func (s *SQLStore) Advise(ctx context.Context) ([]string, error) { return s.bound.advise(ctx) }

// Hears reports whether hints of other programs arrive: behind a pooler in
// transaction mode LISTEN succeeds and nothing is ever heard. It notifies itself,
// and takes a few seconds to say no.
func (s *Store) Hears(ctx context.Context) (bool, error) { return s.bound.hears(ctx) }

// Hears is [Store.Hears].
func (s *SQLStore) Hears(ctx context.Context) (bool, error) { return s.bound.hears(ctx) }

// leastConns is what an engine uses at once: a claim, two lanes of writes, and one
// of sweep, heartbeat and look-ups.
const leastConns = 4

// adviseSQL reads what decides whether acknowledged commits stay, on a connection
// as the program gets it.
const adviseSQL = `
SELECT current_setting('synchronous_commit'), current_setting('fsync'), current_setting('full_page_writes'),
       pg_is_in_recovery(), current_setting('default_transaction_read_only'), current_setting('server_version_num')::bigint`

// facts are what adviseSQL reads.
type facts struct {
	synchronous, fsync, fullPages string
	replica                       bool
	readOnly                      string
	version                       int64
}

// recommended are the sentences; each says when it holds.
var recommended = []struct {
	wrong func(f *facts) bool
	say   string
}{
	{func(f *facts) bool { return f.replica }, "this server is a replica: nothing can be written on it; connect to the primary"},
	{
		func(f *facts) bool { return f.synchronous == "off" },
		"synchronous_commit is off for this role: a crash of the server can take back what your own transactions committed, " +
			"and the intents in them; set it to on (what Consign commits by itself is durable all the same)",
	},
	{
		func(f *facts) bool { return f.fsync == "off" },
		"fsync is off: a crash can damage the whole database; set it to on",
	},
	{
		func(f *facts) bool { return f.fullPages == "off" },
		"full_page_writes is off: a crash can damage pages, unless the file system never tears one; set it to on",
	},
	{
		func(f *facts) bool { return f.readOnly == "on" && !f.replica },
		"default_transaction_read_only is on for this role: your own transactions cannot enqueue; set it to off",
	},
	{
		func(f *facts) bool { return f.version < 140000 },
		"the server is older than PostgreSQL 14: this package is not tested on it; update it",
	},
}

func (e *engine) advise(ctx context.Context) ([]string, error) {
	var f facts
	// Outside of any transaction of the engine's, which would overrule some of it.
	err := e.pool.QueryRow(ctx, adviseSQL).Scan(&f.synchronous, &f.fsync, &f.fullPages, &f.replica, &f.readOnly, &f.version)
	if err != nil {
		return nil, clean("advise", err)
	}
	var advice []string
	for _, r := range recommended {
		if r.wrong(&f) {
			advice = append(advice, r.say)
		}
	}
	if n := e.pool.Config().MaxConns; n < leastConns {
		advice = append(advice, fmt.Sprintf("the pool has %d connections at most: claims, writes and the sweep wait for each other; "+
			"give it %d or more (pool_max_conns)", n, leastConns))
	}
	return advice, nil
}

// silence is how long hears waits for its own notification, and mostHears for how
// long it tries to get a connection that could hear it.
const (
	silence   = time.Second
	mostHears = 10 * time.Second
)

// hears listens until it is known whether anything arrives.
func (e *engine) hears(ctx context.Context) (bool, error) {
	ctx, stop := context.WithTimeout(ctx, mostHears)
	defer stop()
	impatient := &engine{pool: e.pool, schema: e.schema, q: e.q, steps: e.steps, hear: e.hear}
	impatient.hear.silence = min(e.hear.silence, silence)
	heard := false
	err := impatient.Listen(ctx, func(driver.ID) {}, func(err error) {
		if err == nil {
			heard = true
			stop()
		}
	})
	switch {
	case heard:
		return true, nil
	case errors.Is(err, driver.ErrNoListen):
		return false, nil
	case err == nil:
		err = ctx.Err()
	}
	return false, clean("listen", err)
}
