package consigntest

import (
	"context"
	"slices"
	"sync"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// notes are what transactions have enqueued.
type notes[TX comparable] struct {
	mu sync.Mutex
	by map[TX][]consign.Intent
}

func (n *notes[TX]) of(tx TX) []consign.Intent {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.by[tx])
}

// add notes rows, and one that was enqueued twice once.
func (n *notes[TX]) add(tx TX, rows []driver.New) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.by == nil {
		n.by = map[TX][]consign.Intent{}
	}
	noted := map[consign.ID]bool{}
	for _, i := range n.by[tx] {
		noted[i.Ref.ID] = true
	}
	for i := range rows {
		if shown := public(&rows[i].Intent); !noted[shown.Ref.ID] {
			noted[shown.Ref.ID] = true
			n.by[tx] = append(n.by[tx], shown)
		}
	}
}

// keep forgets all but the first count.
func (n *notes[TX]) keep(tx TX, count int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if noted := n.by[tx]; len(noted) > count {
		n.by[tx] = noted[:count:count]
	}
}

// public is an intent as it is shown.
func public(r *driver.Intent) consign.Intent {
	i := consign.Intent{
		Ref: consign.Ref{ID: consign.ID(r.Ref)}, Profile: consign.ProfileWork, Kind: r.Kind, DeliveryKey: consign.ID(r.Key),
		Payload: slices.Clone(r.Payload), To: r.Address, Task: r.Task, Index: r.Index, Subject: r.Subject,
		Run: consign.ID(r.Run), Key: r.WorkKey, Target: r.Target, Status: consign.StatusPending,
	}
	if r.Profile == lifecycle.Message {
		i.Profile = consign.ProfileMessage
	}
	return i
}

// noting is a store that notes what is inserted.
type noting[TX comparable] struct {
	full[TX]
	notes *notes[TX]
}

func (b noting[TX]) Join(tx TX) driver.Tx { return notingTx[TX]{b.full.Join(tx), tx, b.notes} }

func (b noting[TX]) Begin(ctx context.Context) (TX, driver.Tx, error) {
	tx, dtx, err := b.full.Begin(ctx)
	if err != nil {
		return tx, nil, err
	}
	return tx, notingTx[TX]{dtx, tx, b.notes}, nil
}

type notingTx[TX comparable] struct {
	driver.Tx
	tx    TX
	notes *notes[TX]
}

func (n notingTx[TX]) Insert(ctx context.Context, rows []driver.New) error {
	err := n.Tx.Insert(ctx, rows)
	if err == nil {
		n.notes.add(n.tx, rows)
	}
	return err
}

func (n notingTx[TX]) Rollback(ctx context.Context) error {
	n.notes.keep(n.tx, 0)
	return n.Tx.Rollback(ctx)
}

func (n notingTx[TX]) Savepoint(ctx context.Context) (driver.Savepoint, error) {
	count := len(n.notes.of(n.tx))
	sp, err := n.Tx.Savepoint(ctx)
	if err != nil {
		return nil, err
	}
	return notingPoint[TX]{sp, n, count}, nil
}

// notingPoint forgets what is undone.
type notingPoint[TX comparable] struct {
	driver.Savepoint
	in    notingTx[TX]
	count int
}

func (p notingPoint[TX]) Rollback(ctx context.Context) error {
	p.in.notes.keep(p.in.tx, p.count)
	return p.Savepoint.Rollback(ctx)
}
