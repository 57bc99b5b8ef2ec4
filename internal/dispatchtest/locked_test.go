//go:build unix

package dispatchtest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/consign-go/consign/internal/dispatch"
	"github.com/consign-go/consign/internal/driver"
)

// lock keeps everybody from writing a delivery until it is released.
func (d *database) lock(t *testing.T, ref string) (release func()) {
	t.Helper()
	conn, err := d.db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	statements := []string{"BEGIN", fmt.Sprintf("SELECT 1 FROM delivery WHERE ref = '%s' FOR UPDATE", ref)}
	if d.sqlite {
		statements = []string{"BEGIN IMMEDIATE"}
	}
	for _, s := range statements {
		if _, err := conn.ExecContext(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	return func() {
		if _, err := conn.ExecContext(context.Background(), "ROLLBACK"); err != nil {
			t.Error(err)
		}
		conn.Close()
	}
}

// The outcome of an effect is written down after the effect's context has ended, and
// past a lock that somebody else holds on the row: in one call, without an error.
func TestSettleOutlastsItsEffectAndALock(t *testing.T) {
	onBoth(t, func(t *testing.T, d *database) {
		t.Parallel()
		const held = time.Second // more than the effect has
		far := newReceiver(t)
		for _, k := range grid(2*time.Minute, 800*time.Millisecond)[1:4] { // both profiles, both retry owners
			ref := d.enqueue(t, k, 1)[0]
			w := &stricken{Driver: d.Driver, step: theSettle}
			var began time.Time
			w.befall = func(call func() error) error {
				began = time.Now()
				time.AfterFunc(held, d.lock(t, name(ref)))
				return call()
			}
			failed := 0
			p := program{Name: "patient", Receiver: far.place(), Policy: steady, Kinds: []kind{k}, Patience: time.Minute}
			c := p.config(w, func(o dispatch.Observation) {
				if o.Event == "error" {
					failed++
				}
			})
			deliver := &sender{to: p.Receiver, name: p.Name, deaf: true, at: func(driver.ID, string) {}}
			c.Served[0].Deliver = func(ctx context.Context, task *dispatch.Task) error {
				return task.Effect(ctx, task.Intent.Digest, func(ctx context.Context, a dispatch.Attempt) error {
					err := deliver.send(ctx, task.Intent.Ref, task.Intent.Payload, task.Intent.Digest, a)
					<-ctx.Done()
					return err
				})
			}
			r, _, err := dispatch.New(c).Visit(t.Context(), ref)
			if took := time.Since(began); err != nil || failed != 0 || took < held {
				t.Errorf("%s: %v, %d calls failed, written after %s", k.Name, err, failed, took)
			}
			if r.Status.String() != "succeeded" {
				t.Errorf("%s: stands at %s %s", k.Name, r.Status, r.Code)
			}
		}
		d.audit(t, far.all())
	})
}
