package sqlite

import (
	"context"
	"slices"

	"github.com/consign-go/consign/internal/driver"
)

// pageEndSQL finds the last row of a page of the due index, and whether a row comes
// after it: up to two rows, from the index alone.
const pageEndSQL = `SELECT d.route, d.due_at, d.ref` + byDue + `
WHERE d.due_at IS NOT NULL AND (d.route, d.due_at, d.ref) > (?, ?, ?) ORDER BY d.route, d.due_at, d.ref LIMIT 2 OFFSET ?`

// Two queries read what of a page is overdue: the rest of the index, and what is in
// it up to the end of the page. ?1 is the database's now.
const (
	overdueRestSQL = `SELECT ` + stateColumns + `, d.route` + byDue + `
WHERE d.due_at IS NOT NULL AND (d.route, d.due_at, d.ref) > (?2, ?3, ?4) AND (d.deadline <= ?1 OR d.lease_until <= ?1)`
	overduePageSQL = overdueRestSQL + ` AND (d.route, d.due_at, d.ref) <= (?5, ?6, ?7)`
	overdueInOrder = ` ORDER BY d.route, d.due_at, d.ref`
)

// Overdue walks the due index over all routes.
func (e *engine) Overdue(ctx context.Context, r driver.OverdueRequest) ([]driver.Overdue, driver.Cursor, error) {
	limit := r.Limit
	if limit <= 0 {
		limit = 1000
	}
	after := []any{r.After.Route, whole(moment(r.After.DueAt)), r.After.Ref[:]}
	var found []driver.Overdue
	var next driver.Cursor
	err := e.read(ctx, "overdue", func(ctx context.Context, s *session) error {
		found, next = nil, driver.Cursor{}
		now, err := s.now(ctx)
		if err != nil {
			return err
		}
		var ends [][3]any
		err = s.query(ctx, pageEndSQL, append(slices.Clone(after), int64(limit-1)), 3, func(v []any) (bool, error) {
			ends = append(ends, [3]any(kept(v)))
			return true, nil
		})
		if err != nil {
			return err
		}
		query, args := overdueRestSQL, append([]any{now}, after...)
		if len(ends) == 2 {
			end := ends[0]
			query, args = overduePageSQL, append(args, end[:]...)
			next = driver.Cursor{Route: text(end[0]), Position: driver.Position{DueAt: instant(end[1]), Ref: bytes16(end[2])}}
		}
		return s.query(ctx, query+overdueInOrder, args, stateWidth+1, func(v []any) (bool, error) {
			row := readState(v)
			found = append(found, driver.Overdue{Ref: row.ref, Route: text(v[stateWidth]), State: row.at(now)})
			return true, nil
		})
	})
	if err != nil {
		return nil, driver.Cursor{}, err
	}
	return found, next, nil
}
