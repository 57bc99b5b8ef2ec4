package receive

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/consign-go/consign"
)

// Receiver executes each delivery key at most once. It is safe for concurrent use,
// in any number of programs on one database.
type Receiver[TX any] struct {
	*Verifier
	store *Store[TX]

	mu   sync.Mutex
	busy map[string]bool // keys that this program's handlers are executing
}

// New checks the options, without IO; errors are those of [NewVerifier].
func New[TX any](store *Store[TX], o Options) (*Receiver[TX], error) {
	v, err := NewVerifier(o)
	var fs []consign.Fault
	var bad *consign.Error
	if errors.As(err, &bad) {
		fs = bad.Faults
	}
	switch {
	case store == nil:
		fs = append(fs, consign.Fault{Field: "store", Rule: "is nil"})
	case !tableName.MatchString(store.table):
		fs = append(fs, consign.Fault{Field: "table", Rule: "is not a lower-case name, with a schema or without"})
	}
	if len(fs) > 0 {
		return nil, &consign.Error{Op: "receive", Faults: fs, Err: consign.ErrInvalid}
	}
	return &Receiver[TX]{Verifier: v, store: store, busy: map[string]bool{}}, nil
}

// Response is the answer to a delivery that was executed. It is stored with the key
// and given again to every repetition.
type Response struct {
	Status      int    // 200 to 299. Default: 200
	ContentType string // up to 128 bytes of printable ASCII. Default: none
	Body        []byte // up to 64 KiB
}

const maxResponse = 64 << 10

// check fills in the default and reports what cannot be stored.
func (r *Response) check() error {
	if r.Status == 0 {
		r.Status = http.StatusOK
	}
	if r.Body == nil {
		r.Body = []byte{}
	}
	if r.Status < 200 || r.Status > 299 {
		return errors.New("response status is not 200 to 299: return Reject, or another error, for what was not executed")
	}
	if len(r.Body) > maxResponse || !printable(r.ContentType, 0, 128) {
		return errors.New("response body over 65536 bytes, or content type not up to 128 bytes of printable ASCII")
	}
	return nil
}

// Begin holds the delivery's key in your transaction, as its first statement. It
// returns nil where the key is new: execute the delivery in this transaction, then
// [Receiver.Finish] and commit. A response means that it was executed before: undo
// the transaction and give that answer, with [Verifier.Proof].
//
// Errors: ErrInProgress (PostgreSQL; SQLite has one writer, so there it waits as
// long as the program's busy time-out says, and then fails as the database does),
// ErrDigest, or the database's. After each of them undo the transaction.
func (r *Receiver[TX]) Begin(ctx context.Context, tx TX, d Delivery) (*Response, error) {
	c, text := r.store.on(tx), &r.store.text
	if text.locks {
		var got bool
		if err := c.row(ctx, text.hold, []any{r.lock(d.Key)}, &got); err != nil {
			return nil, fault("begin", err)
		}
		if !got {
			return nil, ErrInProgress
		}
	} else if _, err := c.exec(ctx, text.hold); err != nil {
		return nil, fault("begin", err)
	}
	var digest []byte
	var was Response
	err := c.row(ctx, text.find, []any{r.opt.Source, d.Key}, &digest, &was.Status, &was.ContentType, &was.Body)
	switch {
	case err != nil && absent(err):
		return nil, nil
	case err != nil:
		return nil, fault("begin", err)
	case string(digest) != string(d.Digest[:]):
		return nil, ErrDigest
	}
	return &was, nil
}

// lock is the number of the advisory lock that stands for a key.
func (r *Receiver[TX]) lock(key string) int64 {
	h := sha256.Sum256([]byte(r.store.table + "\x00" + r.opt.Source + "\x00" + key))
	return int64(binary.BigEndian.Uint64(h[:]))
}

// errUndone: the key would be stored at once, and the work is gone.
var errUndone = errors.New("the database has rolled the transaction back")

// Finish stores the key and the answer in your transaction, after the work. A key
// that somebody stored meanwhile is an error of the database.
func (r *Receiver[TX]) Finish(ctx context.Context, tx TX, d Delivery, answer Response) error {
	if err := answer.check(); err != nil {
		return fault("finish", err)
	}
	c := r.store.on(tx)
	if r.store.text.probe {
		if _, err := c.exec(ctx, "BEGIN"); err == nil {
			c.exec(context.WithoutCancel(ctx), "ROLLBACK")
			return fault("finish", errUndone)
		}
	}
	_, err := c.exec(ctx, r.store.text.insert, r.opt.Source, d.Key, d.Digest[:], answer.Status, answer.ContentType, answer.Body)
	return fault("finish", err)
}

// Forget removes up to limit keys of every source that were executed longer than
// age ago, by the database's clock, in your transaction, and returns how many. A
// sender's repetition of a forgotten key is executed again, so age is longer than
// anything that may still be sent. The table has no index on time: run it seldom.
func (r *Receiver[TX]) Forget(ctx context.Context, tx TX, age time.Duration, limit int) (int64, error) {
	if age <= 0 || limit < 1 {
		return 0, fault("forget", errors.New("age and limit must be positive"))
	}
	n, err := r.store.on(tx).exec(ctx, r.store.text.forget, age.Microseconds(), limit)
	return n, fault("forget", err)
}
