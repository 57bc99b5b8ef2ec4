package sqlite

import (
	"context"
	"sync"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// places remembers in which rows of the table those deliveries are that this store
// has claimed, so that nothing that happens to them next has to look for their refs:
// that would be a third of a start. A row that is not known is found by its ref.
//
// A VACUUM may move rows, and gives the schema another version; so what is known
// counts only while the version is the same. A place may be another row's by now, as
// where another program has written rows anew, so the refs are compared: the fence
// alone does not tell apart what one claim has taken. Where the fence names no owner,
// refs are looked up.
type places struct {
	mu     sync.Mutex
	schema int64
	rows   map[driver.ID]int64
}

// placesKept is how many are remembered at most. Who holds more, or loses many
// claims, looks refs up.
const placesKept = 50_000

// schemaVersionSQL is SQLite's own number, not that of the migrations.
const schemaVersionSQL = `PRAGMA schema_version`

// schemaVersion reads the version, in a transaction that holds the write lock.
func (w *writer) schemaVersion(ctx context.Context) (int64, error) {
	return w.number(ctx, schemaVersionSQL)
}

// learn notes where the deliveries of ts are.
func (p *places) learn(schema int64, ts []lifecycle.Transition, rows []int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.schema != schema || len(p.rows)+len(ts) > placesKept {
		p.schema, p.rows = schema, nil
	}
	if p.rows == nil {
		p.rows = make(map[driver.ID]int64, len(ts))
	}
	for i := range ts {
		p.rows[ts[i].Ref] = rows[i]
	}
}

// find returns where the deliveries of ts are, nil unless all are known.
func (p *places) find(schema int64, ts []lifecycle.Transition) []int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.schema != schema {
		return nil
	}
	rows := make([]int64, len(ts))
	for i := range ts {
		known := false
		if rows[i], known = p.rows[ts[i].Ref]; !known || ts[i].Fence.Owner == (lifecycle.Token{}) {
			return nil
		}
	}
	return rows
}

// forget drops what nobody holds any more.
func (p *places) forget(ts []lifecycle.Transition) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range ts {
		if set := &ts[i].Set; set.Status.Terminal() || set.Owner == (lifecycle.Token{}) {
			delete(p.rows, ts[i].Ref)
		}
	}
}
