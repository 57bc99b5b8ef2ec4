package memory

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/consign-go/consign/internal/driver"
)

// errReadOnly: a write through a view.
var errReadOnly = errors.New("transaction is read-only")

// Tx is a transaction of a [Store]. Its rows are visible to itself alone until
// Commit. One goroutine at a time may use it.
//
// Put and Get stand for the program's own tables, so that a test can show that
// domain data and intents commit together.
type Tx struct {
	store    *Store
	readOnly bool
	done     bool
	waitsFor *Tx // whose unique key it waits for
	rows     written
}

// written is what a transaction has written and not yet committed.
type written struct {
	intents    []*driver.Intent
	deliveries []*delivery
	runs       map[driver.ID]*run
	approvals  map[driver.ID]*approval
	audits     []audit
	keys       map[string]driver.ID
	own        map[string]string
}

func newWritten() written {
	return written{runs: map[driver.ID]*run{}, approvals: map[driver.ID]*approval{}, keys: map[string]driver.ID{}, own: map[string]string{}}
}

// clone is the state that a savepoint goes back to. Rows themselves are never
// changed in place.
func (w *written) clone() written {
	return written{
		intents: slices.Clone(w.intents), deliveries: slices.Clone(w.deliveries), audits: slices.Clone(w.audits),
		runs: maps.Clone(w.runs), approvals: maps.Clone(w.approvals), keys: maps.Clone(w.keys), own: maps.Clone(w.own),
	}
}

// Begin opens a transaction.
func (s *Store) Begin(ctx context.Context) (*Tx, driver.Tx, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	tx := &Tx{store: s, rows: newWritten()}
	return tx, joined{tx}, nil
}

// Join wraps tx for the engine.
func (s *Store) Join(tx *Tx) driver.Tx { return joined{tx} }

// Commit makes everything visible that tx has written. A finished transaction is
// driver.ErrClosed.
func (tx *Tx) Commit() error {
	tx.store.mu.Lock()
	defer tx.store.mu.Unlock()
	return tx.commit()
}

// commit is Commit. The caller holds mu.
func (tx *Tx) commit() error {
	s := tx.store
	if tx.done {
		return driver.ErrClosed
	}
	for _, i := range tx.rows.intents {
		s.rows.intents[i.Ref] = i
	}
	for _, d := range tx.rows.deliveries {
		s.rows.put(d)
	}
	maps.Copy(s.rows.runs, tx.rows.runs)
	for id, a := range tx.rows.approvals {
		s.rows.approvals[id] = a.after(s.rows.approvals[id])
	}
	maps.Copy(s.rows.keys, tx.rows.keys)
	maps.Copy(s.rows.own, tx.rows.own)
	s.rows.audits = append(s.rows.audits, tx.rows.audits...)
	tx.finish()
	return nil
}

// Rollback undoes everything that tx has written. A finished transaction is
// driver.ErrClosed.
func (tx *Tx) Rollback() error {
	tx.store.mu.Lock()
	defer tx.store.mu.Unlock()
	if tx.done {
		return driver.ErrClosed
	}
	tx.finish()
	return nil
}

// finish closes tx and lets those go on who wait for it. The caller holds mu.
func (tx *Tx) finish() {
	tx.done = true
	tx.giveUp(tx.rows.keys)
	tx.rows = newWritten()
}

// giveUp releases unique keys. The caller holds mu.
func (tx *Tx) giveUp(keys map[string]driver.ID) {
	for key := range keys {
		delete(tx.store.holders, key)
	}
	tx.store.wake()
}

// wake lets everybody look again who waits for a transaction. The caller holds mu.
func (s *Store) wake() {
	close(s.ended)
	s.ended = make(chan struct{})
}

// Put writes a row of the program's own.
func (tx *Tx) Put(key, value string) error {
	tx.store.mu.Lock()
	defer tx.store.mu.Unlock()
	if err := tx.mayWrite(); err != nil {
		return err
	}
	tx.rows.own[key] = value
	return nil
}

// Get reads a row of the program's own.
func (tx *Tx) Get(key string) (value string, ok bool, err error) {
	tx.store.mu.Lock()
	defer tx.store.mu.Unlock()
	if tx.done {
		return "", false, driver.ErrClosed
	}
	if value, ok = tx.rows.own[key]; ok {
		return value, true, nil
	}
	value, ok = tx.store.rows.own[key]
	return value, ok, nil
}

// mayWrite refuses a transaction that is closed or read-only. The caller holds mu.
func (tx *Tx) mayWrite() error {
	switch {
	case tx.done:
		return driver.ErrClosed
	case tx.readOnly:
		return errReadOnly
	}
	return nil
}

// errDeadlock: two transactions wait for each other.
var errDeadlock = errors.New("transactions wait for each other")

// await waits while another open transaction has one of keys, which may yet
// commit or vanish. The caller holds mu, which is given up meanwhile.
func (tx *Tx) await(ctx context.Context, keys []string) error {
	defer func() { tx.waitsFor = nil }()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := tx.mayWrite(); err != nil {
			return err
		}
		tx.waitsFor = tx.otherHolder(keys)
		if tx.waitsFor == nil {
			return nil
		}
		for other := tx.waitsFor; other != nil; other = other.waitsFor {
			if other == tx {
				return errDeadlock
			}
		}
		ended := tx.store.ended
		tx.store.mu.Unlock()
		select {
		case <-ended:
		case <-ctx.Done():
		}
		tx.store.mu.Lock()
	}
}

func (tx *Tx) otherHolder(keys []string) *Tx {
	for _, key := range keys {
		if h := tx.store.holders[key]; h != nil && h != tx {
			return h
		}
	}
	return nil
}

// take claims a unique key for a row of tx. The caller holds mu, and nobody else
// has the key.
func (tx *Tx) take(key string, row driver.ID) {
	tx.rows.keys[key] = row
	tx.store.holders[key] = tx
}

// taken returns the row that has a unique key, as tx sees it. The caller holds mu.
func (tx *Tx) taken(key string) (driver.ID, bool) {
	if id, ok := tx.rows.keys[key]; ok {
		return id, true
	}
	id, ok := tx.store.rows.keys[key]
	return id, ok
}
