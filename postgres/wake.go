package postgres

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"

	"github.com/consign-go/consign/internal/driver"
)

var _ driver.Waker = (*engine)(nil)

// hearing is how Listen makes sure that it hears. LISTEN succeeds behind a pooler
// that hands out connections for single transactions, and is dead there: the server
// notifies whoever has the connection by then. So the listener notifies itself,
// through the pool, and is deaf where it does not hear that.
type hearing struct {
	probe   time.Duration // without a notification for so long, it asks whether it still hears
	silence time.Duration // without an answer for so long, it does not
	pause   time.Duration // before a lost connection is made again; doubles up to longest
	longest time.Duration
}

var usualHearing = hearing{probe: time.Minute, silence: 3 * time.Second, pause: 50 * time.Millisecond, longest: 5 * time.Second}

// deaf is after how many connections in a row on which nothing was ever heard the
// listener gives up. One could be a server that is busy beyond measure.
const deaf = 2

// errSilent: a listening connection did not hear what was sent to it.
var errSilent = errors.New("a notification did not arrive")

// channel is what programs on the same tables listen to. PostgreSQL allows a name
// of 63 bytes.
func (e *engine) channel() string {
	const prefix = "consign"
	if name := prefix + ":" + e.schema; len(name) <= 63 {
		return name
	}
	sum := sha256.Sum256([]byte(e.schema))
	return prefix + "#" + hex.EncodeToString(sum[:16])
}

// notifySQL notifies in a transaction of its own. It holds a lock of the whole
// database while it commits, so it does not wait for the disk: a crash may well
// lose a hint.
const notifySQL = `SELECT set_config('synchronous_commit', 'off', true), pg_notify($1::text, $2::text)`

// Notify hints every program that listens.
func (e *engine) Notify(ctx context.Context, from driver.ID) error {
	payload := ""
	if from != (driver.ID{}) {
		payload = from.String()
	}
	return e.notify(ctx, payload)
}

// notify sends a hint, which says nothing or an ID, or a probe, which says something
// else.
func (e *engine) notify(ctx context.Context, payload string) error {
	_, err := e.pool.Exec(ctx, notifySQL, e.channel(), payload)
	return clean("notify", err)
}

// Listen hears hints until ctx ends.
func (e *engine) Listen(ctx context.Context, wake func(from driver.ID), state func(err error)) error {
	l := &listener{engine: e, wake: wake, state: state}
	silent := 0
	for pause := e.hear.pause; ; pause = min(2*pause, e.hear.longest) {
		err := l.session(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, driver.ErrClosed), errors.Is(err, driver.ErrNoListen):
			return err
		case l.hears:
			l.hears, silent, pause = false, 0, e.hear.pause
			l.state(err)
		case errors.Is(err, errSilent):
			if silent++; silent == deaf {
				return clean("listen", driver.ErrNoListen)
			}
		}
		// Programs that lose their connections together do not come back together.
		timer := time.NewTimer(pause/2 + mathrand.N(pause/2+1))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
}

// listener hears hints on one connection after the other.
type listener struct {
	*engine
	wake  func(from driver.ID)
	state func(err error)
	hears bool // seen on the present connection
}

// session listens on a fresh connection until it fails or turns out to be deaf.
func (l *listener) session(ctx context.Context) error {
	conn, err := l.connect(ctx)
	if err != nil {
		return clean("listen", err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		conn.Close(ctx) // nothing is lost by how it ends
	}()
	// In the simple protocol: nothing is prepared on what may be a pooler.
	if _, err := conn.Exec(ctx, `LISTEN "`+l.channel()+`"`, pgx.QueryExecModeSimpleProtocol); err != nil {
		if state := stated(nil); errors.As(err, &state) && state.SQLState() == "0A000" { // feature_not_supported
			err = fmt.Errorf("%w: %w", driver.ErrNoListen, clean("listen", err))
		}
		return clean("listen", err)
	}
	for {
		if err := l.probe(ctx, conn); err != nil {
			return clean("listen", err)
		}
		for heard := l.hears; heard; { // until it has been quiet for some time
			if _, heard, err = l.next(ctx, conn, l.hear.probe); err != nil {
				return clean("listen", err)
			}
		}
	}
}

// connect makes a connection beside the pool. One of the pool's own would be
// missing there, and a pool of one would be empty.
func (l *listener) connect(ctx context.Context) (*pgx.Conn, error) {
	config := l.pool.Config()
	c := config.ConnConfig
	c.OnNotification = nil
	c.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.DeadlineContextWatcherHandler{Conn: conn.Conn()} // a wait that was cut short leaves the connection usable
	}
	if config.BeforeConnect != nil { // it may know the password of the hour
		if err := config.BeforeConnect(ctx, c); err != nil {
			return nil, err
		}
	}
	return pgx.ConnectConfig(ctx, c)
}

// probe finds out whether conn hears. Where the pool did not let it ask, that is
// neither here nor there: it listens for a while and returns, to be called again.
func (l *listener) probe(ctx context.Context, conn *pgx.Conn) error {
	token := rand.Text()
	limited, cancel := context.WithTimeout(ctx, l.hear.silence)
	unsent := l.notify(limited, token)
	cancel()
	if errors.Is(unsent, driver.ErrClosed) {
		return unsent
	}
	for end := time.Now().Add(l.hear.silence); ; {
		payload, heard, err := l.next(ctx, conn, time.Until(end))
		switch {
		case err != nil:
			return err
		case !heard && unsent == nil:
			return errSilent
		case !heard:
			return nil
		case payload != token:
			continue // a hint, or somebody else's probe
		}
		if !l.hears {
			l.hears = true
			l.state(nil)
		}
		return nil
	}
}

// next waits up to d for a notification, and passes a hint on.
func (l *listener) next(ctx context.Context, conn *pgx.Conn, d time.Duration) (payload string, heard bool, err error) {
	limited, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	n, err := conn.WaitForNotification(limited)
	switch {
	case ctx.Err() != nil:
		return "", false, ctx.Err()
	case err != nil && limited.Err() != nil && !conn.IsClosed():
		return "", false, nil
	case err != nil:
		return "", false, err
	}
	if from, err := driver.ParseID(n.Payload); err == nil || n.Payload == "" {
		l.wake(from)
	}
	return n.Payload, true, nil
}
