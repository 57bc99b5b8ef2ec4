//go:build unix

package dispatchtest

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// The auditor. It imports nothing of this module: it reads tables with SQL and
// writes every number and every rule down again.

// Statuses and retry owners as they are stored.
const (
	isPending, isLeased, isDelivering, isSucceeded  = 0, 1, 2, 3
	isFailed, isCancelled, isReview                 = 4, 5, 6
	byProcess, bySchedule                           = 1, 2
	isWork                                          = 1
	crashBudget                                     = 5
	outcomeRefused, outcomeAccepted, outcomeCrashed = 2, 5, 6
)

// columns of a delivery that a change may touch and the auditor looks at.
var columns = []string{
	"status", "generation", "revision", "owner", "in_flight", "uncertain", "attempts", "crashes", "digest", "code", "lease_until",
}

// state is a delivery at one moment.
type state struct {
	status, attempts, crashes     int
	generation, revision, leaseAt int64 // the lease in microseconds since 1970, 0: none
	owner, digest, code           string
	inFlight, uncertain           bool
}

// step is one change of one delivery.
type step struct {
	at      int64
	was, is state
}

// logged is a row of the attempt log.
type logged struct {
	generation      int64
	number, outcome int
	late            bool
	code            string
}

// finding is everything that is known of one intent.
type finding struct {
	ref        string
	rows       int // in the tables of intents and deliveries; 2 is right
	payload    string
	wanted     string // digest of the payload that was enqueued
	now        state
	retry      int
	profile    int
	idempotent bool
	most       int // attempts; 0: no limit
	clock      int64
	steps      []step
	log        []logged
	came       []arrival
}

// records reads a database's tables.
type records struct {
	db      *sql.DB
	prefix  string
	sqlite  bool
	mu      sync.Mutex
	enqueue map[string]string // by ref: the digest of its payload
}

// newRecords has every change of a delivery noted from now on.
func newRecords(t *testing.T, driver, dsn, prefix string) *records {
	t.Helper()
	r := reopened(t, driver, dsn, prefix)
	for _, statement := range r.triggers() {
		r.exec(t, statement)
	}
	return r
}

// reopened reads a database whose changes are being noted.
func reopened(t *testing.T, driver, dsn, prefix string) *records {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(2)
	return &records{db: db, prefix: prefix, sqlite: driver == "sqlite", enqueue: map[string]string{}}
}

// triggers note every change of every delivery, and every removal.
func (r *records) triggers() []string {
	var names, types, values []string
	for _, when := range []string{"was", "is"} {
		for _, c := range columns {
			names = append(names, when+"_"+c)
			values = append(values, map[string]string{"was": "OLD.", "is": "NEW."}[when]+c)
			types = append(types, when+"_"+c+" "+map[string]string{
				"owner": "uuid", "in_flight": "boolean", "uncertain": "boolean", "digest": "bytea", "code": "text", "lease_until": "timestamptz",
			}[c])
		}
	}
	insert := fmt.Sprintf("INSERT INTO audit_step (at, ref, %s) VALUES (%%s, OLD.ref, %s);", strings.Join(names, ", "), strings.Join(values, ", "))
	if r.sqlite {
		return []string{
			"CREATE TABLE audit_step (n INTEGER PRIMARY KEY, at, ref, " + strings.Join(names, ", ") + ")",
			"CREATE TABLE audit_gone (ref)",
			"CREATE TRIGGER audit_step AFTER UPDATE ON consign_delivery BEGIN " +
				fmt.Sprintf(insert, "CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000") + " END",
			"CREATE TRIGGER audit_gone AFTER DELETE ON consign_delivery BEGIN INSERT INTO audit_gone VALUES (OLD.ref); END",
		}
	}
	for i, c := range types {
		if strings.HasSuffix(c, " ") {
			types[i] = c + "bigint"
		}
	}
	return []string{
		"CREATE TABLE audit_step (n bigserial PRIMARY KEY, at timestamptz, ref uuid, " + strings.Join(types, ", ") + ")",
		"CREATE TABLE audit_gone (ref uuid)",
		"CREATE FUNCTION audit_step() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN " +
			fmt.Sprintf(insert, "clock_timestamp()") + " RETURN NULL; END $$",
		"CREATE FUNCTION audit_gone() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN " +
			"INSERT INTO audit_gone VALUES (OLD.ref); RETURN NULL; END $$",
		"CREATE TRIGGER audit_step AFTER UPDATE ON delivery FOR EACH ROW EXECUTE FUNCTION audit_step()",
		"CREATE TRIGGER audit_gone AFTER DELETE ON delivery FOR EACH ROW EXECUTE FUNCTION audit_gone()",
	}
}

// expect makes an intent known that was committed.
func (r *records) expect(ref string, payload []byte) {
	sum := sha256.Sum256(payload)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.enqueue[ref] = hex.EncodeToString(sum[:])
}

// Columns as text, number or truth, whatever the database.
func (r *records) hex(c string) string {
	if r.sqlite {
		return "COALESCE(lower(hex(" + c + ")), '')"
	}
	return "COALESCE(encode(" + c + ", 'hex'), '')"
}

func (r *records) uuid(c string) string {
	if r.sqlite {
		return r.hex(c)
	}
	return r.hex("uuid_send(" + c + ")")
}

func (r *records) micros(c string) string {
	if r.sqlite {
		return "COALESCE(" + c + ", 0)"
	}
	return "COALESCE((extract(epoch FROM " + c + ") * 1000000)::bigint, 0)"
}

func (r *records) truth(c string) string {
	if r.sqlite {
		return c
	}
	return c + "::int"
}

// clock is the database's own, in microseconds since 1970.
func (r *records) clock() string {
	if r.sqlite {
		return "CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000"
	}
	return r.micros("clock_timestamp()")
}

// state is the columns of a state, each with something before its name.
func (r *records) state(before string) string {
	c := func(name string) string { return before + name }
	return strings.Join([]string{
		c("status"), c("attempts"), c("crashes"), c("generation"), c("revision"), r.micros(c("lease_until")),
		r.uuid(c("owner")), r.hex(c("digest")), "COALESCE(" + c("code") + ", '')", r.truth(c("in_flight")), r.truth(c("uncertain")),
	}, ", ")
}

func (s *state) into() []any {
	return []any{
		&s.status, &s.attempts, &s.crashes, &s.generation, &s.revision, &s.leaseAt, &s.owner, &s.digest, &s.code, &s.inFlight, &s.uncertain,
	}
}

// each calls fn for every row of a query.
func (r *records) each(ctx context.Context, query string, args []any, into []any, fn func()) error {
	rows, err := r.db.QueryContext(ctx, query, args...)
	if err != nil {
		return fmt.Errorf("%s: %w", query, err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return fmt.Errorf("%s: %w", query, err)
		}
		fn()
	}
	return rows.Err()
}

// read collects what is known of every intent that was committed, and of every
// one that is there.
func (r *records) read(ctx context.Context, came []arrival) (map[string]*finding, error) {
	all := map[string]*finding{}
	of := func(ref string) *finding {
		if all[ref] == nil {
			all[ref] = &finding{ref: ref}
		}
		return all[ref]
	}
	r.mu.Lock()
	for ref, digest := range r.enqueue {
		of(ref).wanted = digest
	}
	r.mu.Unlock()
	for _, a := range came {
		f := of(a.key)
		f.came = append(f.came, a)
	}
	var ref, text string
	err := r.each(ctx, "SELECT "+r.uuid("ref")+", payload FROM "+r.prefix+"intent", nil, []any{&ref, &text}, func() {
		of(ref).payload = text
		of(ref).rows++
	})
	if err != nil {
		return nil, err
	}
	var f finding
	query := "SELECT " + r.uuid("ref") + ", retry, profile, " + r.truth("idempotent") + ", COALESCE(max_attempts, 0), " + r.clock() + ", " +
		r.state("") + " FROM " + r.prefix + "delivery"
	into := append([]any{&ref, &f.retry, &f.profile, &f.idempotent, &f.most, &f.clock}, f.now.into()...)
	if err := r.each(ctx, query, nil, into, func() {
		g := of(ref)
		g.retry, g.profile, g.idempotent, g.most, g.clock, g.now = f.retry, f.profile, f.idempotent, f.most, f.clock, f.now
		g.rows++
	}); err != nil {
		return nil, err
	}
	var s step
	query = "SELECT " + r.uuid("ref") + ", " + r.micros("at") + ", " + r.state("was_") + ", " + r.state("is_") + " FROM audit_step ORDER BY n"
	into = append(append([]any{&ref, &s.at}, s.was.into()...), s.is.into()...)
	if err := r.each(ctx, query, nil, into, func() { of(ref).steps = append(of(ref).steps, s) }); err != nil {
		return nil, err
	}
	var l logged
	query = "SELECT " + r.uuid("ref") + ", generation, number, outcome, " + r.truth("late") + ", COALESCE(code, '') FROM " + r.prefix + "attempt ORDER BY at"
	err = r.each(ctx, query, nil, []any{&ref, &l.generation, &l.number, &l.outcome, &l.late, &l.code}, func() { of(ref).log = append(of(ref).log, l) })
	return all, err
}

// one reads a number.
func (r *records) one(ctx context.Context, query string, args ...any) (n int64, err error) {
	err = r.db.QueryRowContext(ctx, query, args...).Scan(&n)
	return n, err
}

// exec changes the database past everybody.
func (r *records) exec(t *testing.T, statement string) {
	t.Helper()
	if _, err := r.db.ExecContext(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// unsettled counts deliveries that are neither at an end nor stranded.
func (r *records) unsettled(ctx context.Context) (int64, error) {
	return r.one(ctx, "SELECT count(*) FROM "+r.prefix+"delivery WHERE status < 3 AND NOT (status = 2 AND retry = 1 AND "+
		r.micros("lease_until")+" <= "+r.clock()+")")
}

// gone counts deliveries that were removed.
func (r *records) gone(ctx context.Context) (int64, error) {
	return r.one(ctx, "SELECT count(*) FROM audit_gone")
}

// overdue ends the lease of a delivery, if there is one.
func (r *records) overdue(ctx context.Context, ref string) error {
	earlier, row := "lease_until - interval '2 hours'", "'"+ref+"'"
	if r.sqlite {
		earlier, row = "lease_until - 7200000000", "X'"+ref+"'"
	}
	_, err := r.db.ExecContext(ctx, "UPDATE "+r.prefix+"delivery SET lease_until = "+earlier+" WHERE ref = "+row+" AND lease_until IS NOT NULL")
	return err
}

// elapse has for some deliveries, in which no process has a hand any more, the effect
// of d having passed: their times move back, and so does the record of their changes.
func (r *records) elapse(t *testing.T, refs []string, d time.Duration) {
	t.Helper()
	quote, interval := "'", fmt.Sprintf("interval '%d microseconds'", d.Microseconds())
	if r.sqlite {
		quote, interval = "X'", fmt.Sprint(d.Microseconds())
	}
	rows := " WHERE ref IN (" + quote + strings.Join(refs, "', "+quote) + "')"
	back := func(columns ...string) string {
		for i, c := range columns {
			columns[i] = c + " = " + c + " - " + interval
		}
		return " SET " + strings.Join(columns, ", ") + rows
	}
	tx, err := r.db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	var last, more int64
	count := func(into *int64, query string) {
		if err := tx.QueryRowContext(t.Context(), query).Scan(into); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
	}
	exec := func(statement string) {
		if _, err := tx.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	if !r.sqlite { // a server may still be at what a process that is dead has asked for
		exec("LOCK TABLE " + r.prefix + "delivery IN SHARE ROW EXCLUSIVE MODE")
	}
	exec("UPDATE audit_step" + back("at", "was_lease_until", "is_lease_until"))
	count(&last, "SELECT COALESCE(max(n), 0) FROM audit_step")
	exec("UPDATE " + r.prefix + "delivery" + back("due_at", "lease_until", "review_at"))
	count(&more, fmt.Sprintf("SELECT count(*) FROM audit_step WHERE n > %d AND was_revision = is_revision", last))
	exec(fmt.Sprintf("DELETE FROM audit_step WHERE n > %d", last))
	if more != int64(len(refs)) {
		t.Fatalf("%d deliveries changed as time passed, not %d", more, len(refs))
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

// bytes is the whole row of a delivery, byte for byte, with where it lies and which
// transaction wrote it where the database tells.
func (r *records) bytes(ctx context.Context, ref string) (string, error) {
	query := "SELECT ctid::text, xmin::text, d::text FROM delivery d WHERE " + r.uuid("ref") + " = $1"
	if r.sqlite {
		query = "SELECT rowid, * FROM consign_delivery WHERE " + r.uuid("ref") + " = $1"
	}
	rows, err := r.db.QueryContext(ctx, query, ref)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return "", err
	}
	values := make([]any, len(names))
	into := make([]any, len(names))
	for i := range values {
		into[i] = &values[i]
	}
	out := ""
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return "", err
		}
		out += fmt.Sprintf("%T %q\n", values, values)
	}
	if out == "" {
		return "", fmt.Errorf("no row %s", ref)
	}
	return out, rows.Err()
}

// audit judges everything and reports what is wrong.
func (r *records) audit(t *testing.T, came []arrival) map[string]*finding {
	t.Helper()
	return r.auditOf(t, came, nil)
}

// auditOf judges some intents, nil: all there are.
func (r *records) auditOf(t *testing.T, came []arrival, refs map[string]int) map[string]*finding {
	t.Helper()
	all, err := r.read(t.Context(), came)
	if err != nil {
		t.Fatal(err)
	}
	for ref := range all {
		if _, asked := refs[ref]; !asked && refs != nil {
			delete(all, ref)
		}
	}
	if n, err := r.gone(t.Context()); err != nil || n != 0 {
		t.Errorf("%d deliveries were removed, %v", n, err)
	}
	wrong := 0
	for _, f := range all {
		for _, fault := range f.judge() {
			if wrong++; wrong <= 20 {
				t.Errorf("%s: %s\n%s", f.ref, fault, f.story())
			}
		}
	}
	if len(all) == 0 {
		t.Error("there was nothing to judge")
	}
	return all
}

// story is what happened to one intent, for whoever has to understand it.
func (f *finding) story() string {
	var lines []string
	line := func(at int64, format string, args ...any) {
		lines = append(lines, time.UnixMicro(at).UTC().Format("15:04:05.000000 ")+fmt.Sprintf(format, args...))
	}
	for _, s := range f.steps {
		line(s.at, "status %d gen %d rev %d owner %.6s in flight %v uncertain %v attempts %d crashes %d code %s lease until %s", s.is.status,
			s.is.generation, s.is.revision, s.is.owner, s.is.inFlight, s.is.uncertain, s.is.attempts, s.is.crashes, s.is.code,
			time.UnixMicro(s.is.leaseAt).UTC().Format("15:04:05.000000"))
	}
	for _, a := range f.came {
		line(a.at.UnixMicro(), "came: gen %d number %d from %s whole %v acted %v", a.generation, a.number, a.worker, a.whole, a.acted)
	}
	slices.Sort(lines)
	return "  " + strings.Join(append(lines, fmt.Sprintf("log %+v", f.log)), "\n  ")
}
