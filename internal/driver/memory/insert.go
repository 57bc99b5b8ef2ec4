package memory

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/consign-go/consign/internal/driver"
)

// joined is a transaction as the contract sees it.
type joined struct{ tx *Tx }

// Schema returns this program's own version: the store has no other.
func (j joined) Schema(ctx context.Context) (driver.Schema, error) {
	if err := ctx.Err(); err != nil {
		return driver.Schema{}, err
	}
	j.tx.store.mu.Lock()
	defer j.tx.store.mu.Unlock()
	if j.tx.done {
		return driver.Schema{}, driver.ErrClosed
	}
	return driver.Schema{Version: driver.SchemaVersion, Oldest: 1}, nil
}

// Insert checks all rows before it writes the first.
func (j joined) Insert(ctx context.Context, rows []driver.New) error {
	tx := j.tx
	tx.store.mu.Lock()
	defer tx.store.mu.Unlock()
	var keys []string
	for i := range rows {
		keys = append(keys, uniqueKeys(&rows[i].Intent)...)
	}
	if err := tx.await(ctx, keys); err != nil {
		return err
	}
	before := tx.rows.clone()
	for i := range rows {
		if err := tx.insert(&rows[i], i); err != nil {
			tx.backTo(before)
			return err
		}
	}
	return nil
}

// uniqueKeys are the entries of i in the unique indexes of the intent table.
func uniqueKeys(i *driver.Intent) []string {
	keys := []string{refKey(i.Ref)}
	if i.Predecessor != (driver.ID{}) {
		return append(keys, "predecessor/"+i.Predecessor.String())
	}
	return keys
}

func refKey(ref driver.ID) string { return "ref/" + ref.String() }

// insert writes one row, or leaves an identical one as it is.
func (tx *Tx) insert(n *driver.New, at int) error {
	now := tx.store.clock.now()
	keys := uniqueKeys(&n.Intent)
	if _, exists := tx.taken(keys[0]); exists {
		if !n.Given {
			return driver.ErrTaken
		}
		if old := tx.intent(n.Ref); old == nil || !sameContent(old, &n.Intent) {
			return &driver.ConflictError{Index: at}
		}
		return nil
	}
	for _, key := range keys[1:] {
		if other, exists := tx.taken(key); exists {
			return fmt.Errorf("intent %s has the successor %s", n.Predecessor, other)
		}
	}
	i := n.Intent
	i.Payload, i.CreatedAt = slices.Clone(i.Payload), now
	d := newDelivery(n, now)
	if err := checkIntent(&i); err != nil {
		return err
	}
	if err := d.check(); err != nil {
		return err
	}
	for _, key := range keys {
		tx.take(key, n.Ref)
	}
	tx.rows.intents = append(tx.rows.intents, &i)
	tx.rows.deliveries = append(tx.rows.deliveries, d)
	return nil
}

// intent returns the intent of ref as tx sees it; nil once it is erased.
func (tx *Tx) intent(ref driver.ID) *driver.Intent {
	for _, i := range tx.rows.intents {
		if i.Ref == ref {
			return i
		}
	}
	return tx.store.rows.intents[ref]
}

// sameContent compares what a repeated enqueue has to give again.
func sameContent(a, b *driver.Intent) bool {
	return a.Profile == b.Profile && a.Kind == b.Kind && a.Address == b.Address && bytes.Equal(a.Payload, b.Payload) &&
		a.Task == b.Task && a.Index == b.Index && a.Subject == b.Subject
}

// backTo undoes what was written since before was cloned. The caller holds mu.
func (tx *Tx) backTo(before written) {
	for key := range before.keys {
		delete(tx.rows.keys, key)
	}
	tx.giveUp(tx.rows.keys)
	tx.rows = before
}

// OpenRun writes the run, unsealed.
func (j joined) OpenRun(ctx context.Context, r driver.Run) error {
	tx := j.tx
	tx.store.mu.Lock()
	defer tx.store.mu.Unlock()
	key := "run/" + r.ID.String()
	if err := tx.await(ctx, []string{key}); err != nil {
		return err
	}
	if _, exists := tx.taken(key); exists {
		return fmt.Errorf("run %s exists", r.ID)
	}
	tx.take(key, r.ID)
	tx.rows.runs[r.ID] = &run{driver.Run{
		ID: r.ID, Operation: r.Operation, Actor: r.Actor, Tenant: r.Tenant, Target: r.Target, Subject: r.Subject,
		InputDigest: r.InputDigest, CreatedAt: tx.store.clock.now(),
	}}
	return nil
}

// SealRun completes a run that this transaction has opened.
func (j joined) SealRun(ctx context.Context, r driver.Run) error {
	tx := j.tx
	tx.store.mu.Lock()
	defer tx.store.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := tx.mayWrite(); err != nil {
		return err
	}
	opened := tx.rows.runs[r.ID]
	if opened == nil || !opened.SealedAt.IsZero() {
		return fmt.Errorf("run %s is not open in this transaction", r.ID)
	}
	if len(r.Receipt) > 4096 {
		return fmt.Errorf("%w: run_shape: receipt of at most 4096 bytes", errCheck)
	}
	sealed, now := *opened, tx.store.clock.now()
	sealed.SecurityVersion, sealed.Target, sealed.TargetVersion = r.SecurityVersion, r.Target, r.TargetVersion
	sealed.Receipt, sealed.Work, sealed.SealedAt = slices.Clone(r.Receipt), slices.Clone(r.Work), now
	tx.rows.runs[r.ID] = &sealed
	tx.rows.audits = append(tx.rows.audits, audit{at: now, madeBy: sealed.Actor, action: "run", run: r.ID, approval: sealed.Approval})
	return nil
}

// Commit and Rollback finish the transaction.
func (j joined) Commit(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return j.tx.Commit()
}

func (j joined) Rollback(context.Context) error { return j.tx.Rollback() }

// Savepoint remembers what has been written so far.
func (j joined) Savepoint(ctx context.Context) (driver.Savepoint, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	j.tx.store.mu.Lock()
	defer j.tx.store.mu.Unlock()
	if j.tx.done {
		return nil, driver.ErrClosed
	}
	return &savepoint{tx: j.tx, before: j.tx.rows.clone()}, nil
}

type savepoint struct {
	tx     *Tx
	before written
	done   bool
}

func (p *savepoint) Release(context.Context) error { return p.end(false) }

func (p *savepoint) Rollback(context.Context) error { return p.end(true) }

func (p *savepoint) end(undo bool) error {
	p.tx.store.mu.Lock()
	defer p.tx.store.mu.Unlock()
	if p.done || p.tx.done {
		return driver.ErrClosed
	}
	p.done = true
	if undo {
		p.tx.backTo(p.before)
	}
	return nil
}
