package receive_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/webhook/internal/signature"
	"github.com/consign-go/consign/webhook/receive"
)

func ok(receive.Delivery) (receive.Response, error) {
	return receive.Response{Status: 201, ContentType: "application/json", Body: []byte(`{"id":7}`)}, nil
}

func TestRepeatedKeyIsExecutedOnceAndAnsweredAlike(t *testing.T) {
	onEveryDatabase(t, func(t *testing.T, d *desk) {
		o := receive.Options{Keys: []receive.Key{key("k")}, Proofs: []receive.Key{key("p")}}
		h := d.handler(o, ok)
		for i := range 3 {
			r := serve(h, signed(key("k"), "key-1", time.Now(), body))
			if got := text(r); r.StatusCode != 201 || got != `{"id":7}` || r.Header.Get("Content-Type") != "application/json" {
				t.Errorf("time %d: %d %s %v", i, r.StatusCode, got, r.Header)
			}
			if !signature.CheckProof([]receive.Key{key("p")}, r.Header.Get("Consign-Proof"), "key-1", sha256.Sum256([]byte(body))) {
				t.Errorf("time %d: no valid proof: %v", i, r.Header)
			}
		}
		if d.executed() != 1 || d.keys() != 1 {
			t.Errorf("executed %d times, %d keys", d.executed(), d.keys())
		}
		// Another receiver of the same program, as after a restart.
		if r := serve(d.handler(o, ok), signed(key("k"), "key-1", time.Now(), body)); r.StatusCode != 201 || d.executed() != 1 {
			t.Errorf("after a restart: %d, executed %d times", r.StatusCode, d.executed())
		}
		// The key belongs to its source.
		o.Source = "another sender"
		if r := serve(d.handler(o, ok), signed(key("k"), "key-1", time.Now(), body)); r.StatusCode != 201 || d.executed() != 2 {
			t.Errorf("another source: %d, executed %d times", r.StatusCode, d.executed())
		}
	})
}

// A receiver that gets into a log by mistake shows nothing of its options.
func TestReceiversAreShownWithoutTheirOptions(t *testing.T) {
	v, err := receive.NewVerifier(receive.Options{Keys: []receive.Key{key("k")}, Proofs: []receive.Key{key("k")}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := receive.New(receive.SQLite(nil, ""), receive.Options{Keys: []receive.Key{key("k")}})
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		for _, it := range []any{v, r} {
			if shown := fmt.Sprintf(format, it); strings.Contains(shown, "107 107") || strings.Contains(shown, "0x6b, 0x6b") || strings.Contains(shown, "kkk") {
				t.Errorf("%s shows %s", format, shown)
			}
		}
	}
}

func TestAnotherBodyUnderAKeyIs422(t *testing.T) {
	onEveryDatabase(t, func(t *testing.T, d *desk) {
		h := d.handler(receive.Options{Keys: []receive.Key{key("k")}, Proofs: []receive.Key{key("p")}}, ok)
		serve(h, signed(key("k"), "key-1", time.Now(), body))
		r := serve(h, signed(key("k"), "key-1", time.Now(), body+" "))
		if r.StatusCode != 422 || r.Header.Get("Consign-Proof") != "" || text(r) != "" || d.executed() != 1 {
			t.Errorf("%d %v, executed %d times", r.StatusCode, r.Header, d.executed())
		}
	})
}

// Whatever keeps the work from being committed leaves neither work nor key, and the
// sender is asked to come back.
func TestFailedWorkLeavesNothing(t *testing.T) {
	onEveryDatabase(t, func(t *testing.T, d *desk) {
		var told faults
		o := receive.Options{Keys: []receive.Key{key("k")}, Proofs: []receive.Key{key("p")}, OnError: told.note, RetryAfter: 90 * time.Second}
		for name, c := range map[string]struct {
			then   func(receive.Delivery) (receive.Response, error)
			status int
		}{
			"an error":        {func(receive.Delivery) (receive.Response, error) { return receive.Response{}, errors.New("s3cr3t") }, 503},
			"a panic":         {func(receive.Delivery) (receive.Response, error) { panic("s3cr3t") }, 503},
			"a status of 500": {func(receive.Delivery) (receive.Response, error) { return receive.Response{Status: 500}, nil }, 503},
			"a large answer": {func(receive.Delivery) (receive.Response, error) {
				return receive.Response{Body: make([]byte, 65537)}, nil
			}, 503},
			"a bad type": {func(receive.Delivery) (receive.Response, error) { return receive.Response{ContentType: "a\r\nb"}, nil }, 503},
			"rejected":   {func(receive.Delivery) (receive.Response, error) { return receive.Response{}, receive.Reject(404) }, 404},
			"rejected, wrapped": {func(receive.Delivery) (receive.Response, error) {
				return receive.Response{}, fmt.Errorf("x: %w", receive.Reject(403))
			}, 403},
			"rejected with 429": {func(receive.Delivery) (receive.Response, error) { return receive.Response{}, receive.Reject(429) }, 400},
			"rejected with 500": {func(receive.Delivery) (receive.Response, error) { return receive.Response{}, receive.Reject(500) }, 400},
			"errors about another request": {func(receive.Delivery) (receive.Response, error) {
				return receive.Response{}, errors.Join(receive.ErrHeaders, receive.ErrSignature, receive.ErrInProgress, receive.ErrDigest, &http.MaxBytesError{})
			}, 503},
		} {
			before := len(told.all)
			r := serve(d.handler(o, c.then), signed(key("k"), "key-1", time.Now(), body))
			if r.StatusCode != c.status || text(r) != "" || r.Header.Get("Consign-Proof") != "" {
				t.Errorf("%s: %d %v, want %d", name, r.StatusCode, r.Header, c.status)
			}
			if (r.Header.Get("Retry-After") == "90") != (c.status == 503) {
				t.Errorf("%s: Retry-After %q", name, r.Header.Get("Retry-After"))
			}
			if len(told.all) != before+1 || name == "a panic" && strings.Contains(told.all[before].Error(), "s3cr3t") {
				t.Errorf("%s: told %v", name, told.all[before:])
			}
			if d.executed() != 0 || d.keys() != 0 {
				t.Errorf("%s: left %d rows and %d keys", name, d.executed(), d.keys())
			}
		}
		if r := serve(d.handler(o, ok), signed(key("k"), "key-1", time.Now(), body)); r.StatusCode != 201 || d.executed() != 1 {
			t.Errorf("once mended: %d, executed %d times", r.StatusCode, d.executed())
		}
	})
}

func TestKeyInProgressIs409(t *testing.T) {
	onEveryDatabase(t, func(t *testing.T, d *desk) {
		o := receive.Options{Keys: []receive.Key{key("k")}}
		in, out := make(chan bool), make(chan bool)
		h := d.handler(o, func(d receive.Delivery) (receive.Response, error) {
			in <- true
			<-out
			return receive.Response{}, nil
		})
		var first sync.WaitGroup
		first.Go(func() {
			if r := serve(h, signed(key("k"), "key-1", time.Now(), body)); r.StatusCode != 200 {
				t.Errorf("first: %d", r.StatusCode)
			}
		})
		<-in
		if r := serve(h, signed(key("k"), "key-1", time.Now(), body)); r.StatusCode != 409 || r.Header.Get("Retry-After") != "5" {
			t.Errorf("in this program: %d %v", r.StatusCode, r.Header)
		}
		if d.locks { // another program; on SQLite it waits for the one writer
			if r := serve(d.handler(o, ok), signed(key("k"), "key-1", time.Now(), body)); r.StatusCode != 409 {
				t.Errorf("in another program: %d", r.StatusCode)
			}
			if r := serve(d.handler(o, ok), signed(key("k"), "key-2", time.Now(), body)); r.StatusCode != 201 {
				t.Errorf("another key is held up: %d", r.StatusCode)
			}
		}
		out <- true
		first.Wait()
		if r := serve(h, signed(key("k"), "key-1", time.Now(), body)); r.StatusCode != 200 {
			t.Errorf("afterwards: %d", r.StatusCode)
		}
	})
}

func TestManyAtOnceExecuteOnce(t *testing.T) {
	onEveryDatabase(t, func(t *testing.T, d *desk) {
		o := receive.Options{Keys: []receive.Key{key("k")}}
		programs := []http.Handler{d.handler(o, ok), d.handler(o, ok)}
		var all sync.WaitGroup
		var done atomic.Int64
		for i := range 8 {
			all.Go(func() {
				for {
					switch r := serve(programs[i%2], signed(key("k"), "key-1", time.Now(), body)); r.StatusCode {
					case 201:
						done.Add(1)
						return
					case 409, 503:
						time.Sleep(time.Millisecond) // the others need the processor too
					default:
						t.Errorf("%d", r.StatusCode)
						return
					}
				}
			})
		}
		all.Wait()
		if done.Load() != 8 || d.executed() != 1 || d.keys() != 1 {
			t.Errorf("%d answered, executed %d times, %d keys", done.Load(), d.executed(), d.keys())
		}
	})
}

func TestOnlySignedAndTimelyRequestsAreTaken(t *testing.T) {
	onEveryDatabase(t, func(t *testing.T, d *desk) {
		now := time.Unix(1_800_000_000, 0)
		o := receive.Options{Keys: []receive.Key{key("n"), key("k")}, Now: func() time.Time { return now }, MaxBody: 100}
		h := d.handler(o, ok)
		with := func(change func(r *http.Request)) *http.Request {
			r := signed(key("k"), "key-1", now, body)
			change(r)
			return r
		}
		for name, c := range map[string]struct {
			req    *http.Request
			status int
		}{
			"by a stranger": {signed(key("s"), "key-1", now, body), 401},
			"another body": {func() *http.Request {
				r := signed(key("k"), "key-1", now, body)
				x := signed(key("k"), "key-1", now, "{}")
				x.Header = r.Header
				return x
			}(), 401},
			"another key":             {with(func(r *http.Request) { r.Header.Set("Webhook-Id", "key-2") }), 401},
			"another time":            {with(func(r *http.Request) { r.Header.Set("Webhook-Timestamp", "1800000001") }), 401},
			"no signature":            {with(func(r *http.Request) { r.Header.Del("Webhook-Signature") }), 400},
			"two signatures' headers": {with(func(r *http.Request) { r.Header.Add("Webhook-Signature", "v1,AAAA") }), 400},
			"two keys":                {with(func(r *http.Request) { r.Header.Add("Webhook-Id", "key-2") }), 400},
			"no key":                  {with(func(r *http.Request) { r.Header.Del("Webhook-Id") }), 400},
			"a key with a dot":        {signed(key("k"), "key.1", now, body), 400},
			"a long key":              {signed(key("k"), strings.Repeat("k", 129), now, body), 400},
			"no time":                 {with(func(r *http.Request) { r.Header.Del("Webhook-Timestamp") }), 400},
			"a time in words":         {with(func(r *http.Request) { r.Header.Set("Webhook-Timestamp", "now") }), 400},
			"a time with a sign":      {with(func(r *http.Request) { r.Header.Set("Webhook-Timestamp", "+1800000000") }), 400},
			"too old":                 {signed(key("k"), "key-1", now.Add(-5*time.Minute-time.Second), body), 503},
			"too new":                 {signed(key("k"), "key-1", now.Add(5*time.Minute+time.Second), body), 503},
			"too old and forged":      {signed(key("s"), "key-1", now.Add(-time.Hour), body), 401},
			"too large":               {signed(key("k"), "key-1", now, strings.Repeat("x", 101)), 413},
			"not a POST":              {with(func(r *http.Request) { r.Method = "PUT" }), 405},
		} {
			if r := serve(h, c.req); r.StatusCode != c.status || text(r) != "" {
				t.Errorf("%s: %d, want %d", name, r.StatusCode, c.status)
			}
		}
		if d.executed() != 0 || d.keys() != 0 {
			t.Errorf("executed %d, keys %d", d.executed(), d.keys())
		}
		for i, req := range []*http.Request{
			signed(key("k"), "old-edge", now.Add(-5*time.Minute), body), signed(key("k"), "new-edge", now.Add(5*time.Minute), body),
			signed(key("n"), "other-secret", now, body), signed(key("k"), strings.Repeat("k", 128), now, strings.Repeat("x", 100)),
		} {
			if r := serve(h, req); r.StatusCode != 201 {
				t.Errorf("good request %d: %d", i, r.StatusCode)
			}
		}
	})
}

// By hand, in a transaction of the program's own.
func TestBeginAndFinishJoinTheProgramsTransaction(t *testing.T) {
	onEveryDatabase(t, func(t *testing.T, d *desk) {
		o := receive.Options{Keys: []receive.Key{key("k")}}
		dl := receive.Delivery{Key: "key-1", Digest: sha256.Sum256([]byte(body)), Body: []byte(body)}
		for i, end := range []string{"rollback", "commit"} {
			w := d.begin(o)
			if was, err := w.begin(dl); was != nil || err != nil {
				t.Fatalf("%s: %v, %v", end, was, err)
			}
			if err := w.finish(dl, receive.Response{Status: 199}); err == nil {
				t.Error("a status of 199 is stored")
			}
			if err := w.finish(dl, receive.Response{}); err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				w.rollback()
			} else if err := w.commit(); err != nil {
				t.Fatal(err)
			}
			if d.keys() != i {
				t.Errorf("after the %s: %d keys", end, d.keys())
			}
		}
		w := d.begin(o)
		if was, err := w.begin(dl); err != nil || was == nil || was.Status != 200 || len(was.Body) != 0 {
			t.Errorf("again: %v, %v", was, err)
		}
		w.rollback()
		w = d.begin(o)
		dl.Digest[0]++
		if _, err := w.begin(dl); !errors.Is(err, receive.ErrDigest) {
			t.Errorf("another digest: %v", err)
		}
		w.rollback()
	})
}

func TestForgetRemovesOnlyOldKeys(t *testing.T) {
	onEveryDatabase(t, func(t *testing.T, d *desk) {
		o := receive.Options{Keys: []receive.Key{key("k")}}
		h := d.handler(o, ok)
		for i := range 3 {
			serve(h, signed(key("k"), fmt.Sprint("key-", i), time.Now(), body))
		}
		forget := func(age time.Duration, limit int) (int64, error) {
			w := d.begin(o)
			n, err := w.forget(age, limit)
			if err != nil {
				w.rollback()
				return n, err
			}
			return n, w.commit()
		}
		if n, err := forget(time.Hour, 10); n != 0 || err != nil {
			t.Errorf("nothing is an hour old: %d, %v", n, err)
		}
		if _, err := forget(0, 10); err == nil {
			t.Error("an age of 0 is taken")
		}
		for d.keys() != 1 { // two, then the third; the clocks' grain may hold it up
			if _, err := forget(time.Microsecond, 2); err != nil {
				t.Fatal(err)
			}
		}
		if n, err := forget(time.Microsecond, 10); n != 1 || err != nil || d.keys() != 0 {
			t.Errorf("the last: %d, %v, %d keys", n, err, d.keys())
		}
	})
}

func TestOptionsAreCheckedAllAtOnce(t *testing.T) {
	_, err := receive.New(receive.SQLite(nil, `x"; DROP TABLE y`), receive.Options{
		Proofs: []receive.Key{{}}, Tolerance: time.Millisecond, RetryAfter: 25 * time.Hour, MaxBody: -1, Source: "a\nb",
	})
	if !errors.Is(err, consign.ErrInvalid) {
		t.Fatalf("got %v", err)
	}
	for _, part := range []string{"keys 0, limit 1 to 4", "proofs[0] cannot sign", "tolerance 1ms", "retry_after", "max_body -1", "source", "table"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in %v", part, err)
		}
	}
	if _, err := receive.New[int](nil, receive.Options{Keys: []receive.Key{key("k")}}); err == nil {
		t.Error("no store is taken")
	}
	if s := receive.Postgres(nil, "desk.keys").Schema(); !strings.Contains(s, "CREATE TABLE IF NOT EXISTS desk.keys (") || strings.Contains(s, "{t}") {
		t.Errorf("schema %s", s)
	}
}
