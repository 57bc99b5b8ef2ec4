package sqlite

import (
	"context"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

var _ driver.Registry = (*engine)(nil)

const (
	registerSQL = `INSERT INTO {s}program (id, name, started_at, heartbeat_at) VALUES (?1, ?2, ?3, ?3)
ON CONFLICT (id) DO UPDATE SET name = excluded.name, heartbeat_at = excluded.heartbeat_at`
	servesSQL = `INSERT INTO {s}program_route (program_id, profile, kind, version, fingerprint, upgrades,
    retry, idempotent, lease_ms, timeout_ms, max_attempts, max_age_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	serveNoneSQL  = `DELETE FROM {s}program_route WHERE program_id = ?`
	unregisterSQL = `DELETE FROM {s}program WHERE id = ?`

	deadRoutesSQL = `DELETE FROM {s}program_route WHERE program_id IN (SELECT p.id FROM {s}program p WHERE p.heartbeat_at < ?)`
	deadSQL       = `DELETE FROM {s}program WHERE heartbeat_at < ?`
)

// remembered is how long a program without a heartbeat stays on record.
const remembered = 24 * time.Hour

// Register writes or renews the entry of p.
func (e *engine) Register(ctx context.Context, p driver.Program) error {
	return e.write(ctx, "register", func(ctx context.Context, w *writer) error {
		if _, err := w.exec(ctx, registerSQL, p.ID[:], p.Name, w.now); err != nil {
			return err
		}
		dead := w.now - remembered.Microseconds()
		for _, statement := range []string{deadRoutesSQL, deadSQL} {
			if _, err := w.exec(ctx, statement, dead); err != nil {
				return err
			}
		}
		if _, err := w.exec(ctx, serveNoneSQL, p.ID[:]); err != nil {
			return err
		}
		for i := range p.Serves {
			s := &p.Serves[i]
			args := []any{p.ID[:], int64(s.Profile), s.Kind, s.Version, hash(s.Fingerprint), flag(s.Upgrade),
				int64(s.Contract.Retry), flag(s.Contract.Idempotent)}
			for _, c := range contractColumns(&s.Contract) {
				args = append(args, c.value)
			}
			if _, err := w.exec(ctx, servesSQL, args...); err != nil {
				return err
			}
		}
		return nil
	})
}

// Unregister removes the entry of id.
func (e *engine) Unregister(ctx context.Context, id driver.ID) error {
	return e.write(ctx, "unregister", func(ctx context.Context, w *writer) error {
		for _, statement := range []string{serveNoneSQL, unregisterSQL} {
			if _, err := w.exec(ctx, statement, id[:]); err != nil {
				return err
			}
		}
		return nil
	})
}

const servingSQL = `SELECT DISTINCT r.profile, r.kind, r.version, r.fingerprint, r.upgrades,
    r.retry, r.idempotent, r.lease_ms, r.timeout_ms, r.max_attempts, r.max_age_ms
FROM {s}program p CROSS JOIN {s}program_route r ON r.program_id = p.id WHERE p.heartbeat_at > {now} - ?`

// Serving returns what live programs serve.
func (e *engine) Serving(ctx context.Context, within time.Duration) ([]driver.Serves, error) {
	var list []driver.Serves
	err := e.read(ctx, "serving", func(ctx context.Context, s *session) error {
		list = nil
		return s.query(ctx, servingSQL, []any{within.Microseconds()}, 11, func(v []any) (bool, error) {
			list = append(list, driver.Serves{
				Profile: lifecycle.Profile(whole(v[0])), Kind: text(v[1]), Version: text(v[2]),
				Fingerprint: bytes32(v[3]), Upgrade: whole(v[4]) == 1,
				Contract: lifecycle.Contract{
					Retry: lifecycle.RetryOwner(whole(v[5])), Idempotent: whole(v[6]) == 1, Lease: duration(v[7]),
					Timeout: duration(v[8]), MaxAttempts: int(whole(v[9])), MaxAge: duration(v[10]),
				},
			})
			return true, nil
		})
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}
