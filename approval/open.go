package approval

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/internal/driver"
)

// Query asks for a page of the open approvals.
type Query struct {
	// Tenant is whose approvals are listed. Default: those of all tenants.
	Tenant consign.Entity

	// After is where the page begins: what the call before returned. Default: the
	// beginning.
	After Cursor

	// Limit is how many a page has, 1 to 1,000. Default: 100.
	Limit int
}

// Cursor is a place in the list. It is opaque, and safe in a URL.
type Cursor string

// MaxPage is how many approvals one page can have.
const MaxPage = 1000

// Open lists the approvals that wait for a decision and have not expired, those
// that will expire soonest first, and returns where the next page begins; an empty
// cursor means that there is none. Who may see them is the caller's to check.
//
// Errors: consign.ErrInvalid, or the database's own.
func (a *Approvals[TX]) Open(ctx context.Context, q Query) ([]Approval, Cursor, error) {
	const op = "list approvals"
	var wrong []consign.Fault
	if q.Tenant != (consign.Entity{}) {
		wrong = entityFaults("tenant", q.Tenant)
	}
	limit := q.Limit
	if limit == 0 {
		limit = 100
	}
	if limit < 0 || limit > MaxPage {
		wrong = append(wrong, consign.Fault{Field: "limit", Rule: strconv.Itoa(limit) + ", limit 1 to " + strconv.Itoa(MaxPage)})
	}
	after, ok := q.After.place()
	if !ok {
		wrong = append(wrong, consign.Fault{Field: "after", Rule: "is no cursor of this list"})
	}
	if len(wrong) > 0 {
		return nil, "", &consign.Error{Op: op, Faults: wrong, Err: consign.ErrInvalid}
	}
	rows, err := a.bound.OpenApprovals(ctx, driver.OpenApprovals{Tenant: q.Tenant.String(), After: after, Limit: limit + 1})
	if err != nil {
		return nil, "", consign.Failure(driver.Key{}, op, err)
	}
	var next Cursor
	if len(rows) > limit {
		rows = rows[:limit]
		next = cursorAt(&rows[limit-1])
	}
	list := make([]Approval, len(rows))
	for i := range rows {
		if list[i], err = public(&rows[i]); err != nil {
			return nil, "", err
		}
	}
	return list, next, nil
}

func cursorAt(a *driver.Approval) Cursor {
	return Cursor(strconv.FormatInt(a.ExpiresAt.UnixMicro(), 10) + "." + a.ID.String())
}

// maxMicros is the year 9999, which every database can say.
var maxMicros = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()

// place reads a cursor.
func (c Cursor) place() (driver.ApprovalCursor, bool) {
	if c == "" {
		return driver.ApprovalCursor{}, true
	}
	at, id, _ := strings.Cut(string(c), ".")
	micros, err := strconv.ParseInt(at, 10, 64)
	if err != nil || micros < 0 || micros > maxMicros {
		return driver.ApprovalCursor{}, false
	}
	ref, err := driver.ParseID(id)
	return driver.ApprovalCursor{ExpiresAt: time.UnixMicro(micros).UTC(), ID: ref}, err == nil
}
