package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// recentSQL counts along the index of ended deliveries alone, a bounded stretch of it
// for each profile, status and part. The key of a part's stretch is ordered by, so
// that no other plan can be chosen than the walk along that index.
const recentSQL = `
SELECT s.profile, s.terminal, p.place, t.n
FROM unnest($1::smallint[], $2::smallint[]) AS s(profile, terminal)
CROSS JOIN generate_series(0, $3::bigint - 1) AS p(place)
CROSS JOIN LATERAL (
    SELECT count(*) AS n
    FROM (
        SELECT
        FROM {s}delivery
        WHERE profile = s.profile AND terminal = s.terminal
          AND created_at >= $4::timestamptz + p.place * $5::bigint * interval '1 microsecond'
          AND created_at < $4::timestamptz + (p.place + 1) * $5::bigint * interval '1 microsecond'
        ORDER BY created_at, ref
        LIMIT $6::bigint + 1
    ) d
) t
WHERE t.n > 0`

// ends are the profiles and statuses with which a delivery can have ended.
func ends() (profiles, statuses numbers) {
	for _, p := range []lifecycle.Profile{lifecycle.Work, lifecycle.Message} {
		for _, s := range lifecycle.Statuses {
			if s.Terminal() {
				profiles, statuses = append(profiles, int64(p)), append(statuses, int64(s))
			}
		}
	}
	return profiles, statuses
}

func recentArgs(r *driver.RecentRequest) []any {
	profiles, statuses := ends()
	return []any{profiles, statuses, int64(r.Parts), moment(r.From), r.Part.Microseconds(), int64(r.Limit)}
}

// Recent counts what was created lately and has ended.
func (e *engine) Recent(ctx context.Context, r driver.RecentRequest) ([]driver.RecentEnd, error) {
	var out []driver.RecentEnd
	r.Part = r.Part.Truncate(time.Microsecond)
	err := e.read(ctx, "recent", e.q.recent, recentArgs(&r), func(rows pgx.Rows) error {
		var d driver.RecentEnd
		err := rows.Scan((*small[lifecycle.Profile])(&d.Profile), (*small[lifecycle.Status])(&d.Status), (*whole)(&d.Place), (*whole)(&d.N))
		out = append(out, d)
		return err
	})
	return out, err
}
