package postgres

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// fillOpen makes open deliveries: three in four are messages of one channel, every
// fourth is work; the messages are in tasks of four.
const fillOpen = `
WITH made AS (
    SELECT n, gen_random_uuid() AS ref, gen_random_uuid() AS run, n %% 4 = 0 AS work,
           now() - interval '1 hour' + n * interval '1 millisecond' AS due
    FROM generate_series(1, %[1]d) n
),
intents AS (
    INSERT INTO {s}intent (ref, created_at, profile, kind, payload_digest, payload, address, task, task_index,
        subject, version, fingerprint, run_id, work_key, operation, actor, tenant, security_version, target, target_version)
    SELECT ref, due, CASE WHEN work THEN 1 ELSE 2 END, CASE WHEN work THEN 'closed' ELSE 'mail' END,
           sha256(n::text::bytea), '{"n":1}', CASE WHEN work THEN NULL ELSE 'a@example.org' END,
           CASE WHEN work THEN NULL ELSE 'task ' || n / 4 END, n %% 4, 'subject ' || n / 100,
           CASE WHEN work THEN '1' END, CASE WHEN work THEN sha256('closed') END, CASE WHEN work THEN run END,
           CASE WHEN work THEN 'key' END, CASE WHEN work THEN 'op' END, CASE WHEN work THEN 'a' END,
           CASE WHEN work THEN 't' END, CASE WHEN work THEN '1' END, CASE WHEN work THEN 't' END, CASE WHEN work THEN '1' END
    FROM made
)
INSERT INTO {s}delivery (ref, created_at, route, profile, gate_task, gate_index, lease_ms, timeout_ms, max_attempts, max_age_ms,
    retry, idempotent, due_at, updated_at)
SELECT ref, due, CASE WHEN work THEN '%[2]s' ELSE 'm:mail' END, CASE WHEN work THEN 1 ELSE 2 END,
       CASE WHEN work THEN NULL ELSE 'task ' || n / 4 END, CASE WHEN work THEN NULL ELSE n %% 4 END,
       60000, 10000, 8, 86400000, 2, true, due, now()
FROM made`

// fillApprovals makes approvals: nearly all of them open and forgotten since.
const fillApprovals = `
WITH made AS (
    INSERT INTO {s}approval (id, created_at, expires_at, operation, actor, tenant, input_digest, proposer, subject)
    SELECT gen_random_uuid(), now(), now() + CASE WHEN n > 30000 THEN interval '1 hour' ELSE -interval '1 hour' END, 'op', 'a',
           CASE n % 10 WHEN 0 THEN 't' ELSE 'u' END, sha256(n::text::bytea), 'p', 'subject ' || n / 100
    FROM generate_series(1, 30300) n
)
INSERT INTO {s}run (id, created_at, operation, actor, tenant, subject)
SELECT gen_random_uuid(), now(), 'op', 'a', 't', 'subject ' || n / 100 FROM generate_series(1, 30000) n`

// fillEnded makes ended deliveries: mostly delivered messages, and of each other
// end some thousands, with the log of an attempt.
const fillEnded = `
WITH made AS (
    SELECT n, gen_random_uuid() AS ref, gen_random_uuid() AS run, n %% 6 = 0 AS work,
           now() - interval '30 days' + n * interval '1 second' AS at,
           CASE WHEN n %% 6 = 0 THEN CASE n %% 60 WHEN 0 THEN 6 WHEN 6 THEN 5 ELSE 3 END ELSE CASE n %% 50 WHEN 1 THEN 4 ELSE 3 END END AS status
    FROM generate_series(1, %[1]d) n
),
intents AS (
    INSERT INTO {s}intent (ref, created_at, profile, kind, payload_digest, payload, address, subject,
        version, fingerprint, run_id, work_key, operation, actor, tenant, security_version, target, target_version)
    SELECT ref, at, CASE WHEN work THEN 1 ELSE 2 END, CASE WHEN work THEN 'closed' ELSE 'mail' END,
           sha256(n::text::bytea), '{"n":1}', CASE WHEN work THEN NULL ELSE 'a@example.org' END, 'old subject ' || n / 100,
           CASE WHEN work THEN '1' END, CASE WHEN work THEN sha256('closed') END, CASE WHEN work THEN run END,
           CASE WHEN work THEN 'key' END, CASE WHEN work THEN 'op' END, CASE WHEN work THEN 'a' END,
           CASE WHEN work THEN 't' END, CASE WHEN work THEN '1' END, CASE WHEN work THEN 't' END, CASE WHEN work THEN '1' END
    FROM made
),
log AS (
    INSERT INTO {s}attempt (ref, generation, number, outcome, at)
    SELECT ref, 1, 1, 2, at FROM made WHERE status > 3
),
findings AS (
    INSERT INTO {s}resolution (id, ref, at, outcome, made_by)
    SELECT run, ref, at, 2, 'ann' FROM made WHERE status = 4
),
audits AS (
    INSERT INTO {s}audit (at, made_by, action, ref)
    SELECT at, 'ann', 'resolve', ref FROM made WHERE status = 4
)
INSERT INTO {s}delivery (ref, created_at, route, profile, lease_ms, timeout_ms, max_attempts, max_age_ms,
    retry, idempotent, updated_at, status, terminal, generation, revision, attempts, owner, program, started_at, digest,
    review_at)
SELECT ref, at, CASE WHEN work THEN '%[2]s' ELSE 'm:mail' END, CASE WHEN work THEN 1 ELSE 2 END, 60000, 10000, 8, 86400000,
       2, true, at, status, status, 1, 3, 1, gen_random_uuid(), 'worker', at, sha256(n::text::bytea),
       CASE WHEN status = 6 AND n %% 120 = 0 THEN at END
FROM made`

var planRoute = driver.WorkRoute("closed", sha256.Sum256([]byte("closed")))

// stage is a size of the tables, with something to ask for.
type stage struct {
	name                       string
	open                       int
	pending, held, ended, refs uuids
	claimed                    []driver.Claimed
}

// asked for in one call.
const planBatch = 100

// plan is a statement of the engine with how much of the tables it may touch.
type plan struct {
	name    string
	sql     string
	args    []any
	rows    int // of each table, at most
	buffers int
	unaided bool // runs inside the caller's transaction, without the pins
}

// plans are all statements that the engine sends, for a stage.
func (d *database) plans(t *testing.T, s *stage) []plan {
	t.Helper()
	const few, many = 10 * planBatch, 60 * planBatch
	all := 2*s.open + few
	claim := func(refs uuids, suspects bool) []any {
		r := request("m:mail", planBatch)
		r.Routes = append(r.Routes, driver.RouteLimit{Route: planRoute, Limit: planBatch})
		r.Refs, r.Suspects = refs, suspects
		args, _ := asked(&r)
		return args
	}
	next := func() []any {
		r := request("m:mail", planBatch)
		r.Routes = append(r.Routes, driver.RouteLimit{Route: planRoute, Limit: planBatch})
		for i := range planBatch {
			r.Next = append(r.Next, driver.Step{Task: "task " + strconv.Itoa(i), Index: i % 4})
		}
		args, _ := asked(&r)
		return args
	}
	owner := []any{uuid(driver.NewID()), "worker"}
	if len(s.refs) == 0 {
		s.refs = uuids{driver.NewID()}
	}
	given := messages(planBatch)
	for i := range given {
		given[i].Given = true
	}
	change := changesOf(starts(s.claimed))
	var late []driver.Logged
	for _, ref := range s.refs {
		late = append(late, driver.Logged{
			Ref: ref, Attempt: lifecycle.Attempt{Generation: 1, Number: 2, Outcome: lifecycle.Unknown, Late: true},
		})
	}
	stops := transitionsOf(s.claimed, func(c *driver.Claimed) lifecycle.Event {
		return lifecycle.Event{
			Kind: lifecycle.EvPanicked, Owner: c.State.Owner, Generation: c.State.Generation, Error: "panic",
		}
	})
	logged := changesOf(stops).args()
	rows := make([]*driver.New, planBatch)
	for i := range rows {
		rows[i] = &given[i]
	}
	run := driver.NewID()
	return []plan{
		{"claim", d.q.claim, append(claim(nil, false), owner...), few, many, false},
		{"claim of suspects", d.q.claim, append(claim(nil, true), owner...), all, 40 * all, false},
		{"claim of refs", d.q.claimRefs, append(claim(s.refs, false), owner...), few, many, false},
		{"claim of the next", d.q.claimNext, append(next(), owner...), few, many, false},
		{"due of the next", d.q.dueNext, next(), few, many, false},
		{"due", d.q.due, claim(nil, false), few, many, false},
		{"due of refs", d.q.dueRefs, claim(s.refs, false), few, many, false},
		{"held", d.q.held, []any{texts{"m:mail", planRoute}, uuid(driver.NewID())}, all, 40 * all, false},
		{"apply", d.q.apply, change.args(), few, many, false},
		{"apply plainly", d.q.plain, plainOf(starts(s.claimed)).args(), few, many, false},
		{"apply with log rows", d.q.apply, logged, few, many, false},
		{"append", d.q.appendLate, logArgs(late), few, many, false},
		{"load", d.q.load, []any{s.refs}, few, many, false},
		{"history", d.q.history, []any{s.refs[0].String()}, few, few, false},
		{"overdue", d.q.overdue, []any{"", "-infinity", driver.ID{}.String(), int64(planBatch)}, few, many, false},
		{"waiting", d.q.waiting, []any{"", int64(0), driver.ID{}.String(), int64(planBatch)}, all, 40 * all, false},
		{"routes", d.q.routes, nil, few, few, false},
		{"lock ended", d.q.lockEnded, []any{numbers{3, 4, 5, 6}, int64(1), moment(time.Now()), int64(planBatch)}, few, many, false},
		{"prune", d.q.prune, []any{s.refs}, few, many, false},
		{"lock subjects", d.q.lockSubjects, []any{texts{"subject 1", "old subject 1"}}, few, many, false},
		{"forget", d.q.forget, []any{s.refs}, few, many, false},
		{"forget people", d.q.forgets, []any{texts{"subject 1"}}, few, many, false},
		{"stored", d.q.stored, []any{s.refs}, few, many, false},
		{"unwrite", d.q.unwrite, []any{s.refs, s.refs}, few, many, false},
		{"register", d.q.register, []any{uuid(run), "worker"}, few, few, false},
		{"unregister", d.q.unregister, []any{uuid(run)}, few, few, false},
		{"review", d.q.review, []any{"-infinity", driver.ID{}.String(), int64(planBatch)}, few, many, false},
		{"walk open", d.q.walkOpen, []any{"m;", "m:", "-infinity", driver.ID{}.String(), int64(planBatch)}, few, many, false},
		{"walk loops", d.q.walkLoops, []any{"-infinity", driver.ID{}.String(), int64(planBatch)}, few, many, false},
		{"walk ended", d.q.walkEnded, []any{int64(2), int64(3), "-infinity", "infinity", driver.ID{}.String(), int64(planBatch)}, few, many, false},
		{"walk subject", d.q.walkSubject, []any{"old subject 1", driver.ID{}.String(), int64(planBatch)}, few, many, false},
		{"chains", d.q.chains, []any{s.refs}, few, many, false},
		{"logs", d.q.logs, []any{s.refs}, few, many, false},
		{"resolutions", d.q.resolutions, []any{s.refs}, few, many, false},
		{"audits", d.q.audits, []any{int64(1 << 40), int64(planBatch)}, few, many, false},
		{"audits of one", d.q.auditsOf, []any{s.refs[0].String(), int64(1 << 40), int64(planBatch)}, few, many, false},
		{"tally open", d.q.tallyOpen, []any{texts{"m:mail", planRoute}, int64(planBatch)}, few, many, false},
		{"tally ended", d.q.tallyEnded, []any{numbers{1, 1, 1, 2, 2}, numbers{3, 5, 6, 3, 4}, int64(planBatch)}, few, many, false},
		{"tally loops", d.q.tallyLoops, []any{int64(planBatch)}, few, many, false},
		{"in review", d.q.inReview, []any{int64(planBatch)}, few, many, false},
		{"recent", d.q.recent, recentArgs(&driver.RecentRequest{
			From: time.Now().Add(-20 * 24 * time.Hour), Part: time.Minute, Parts: 2, Limit: planBatch,
		}), few, many, false},
		{"insert", d.q.insert, insertArgs(rows), few, many, true},
		{"insert given", d.q.insertGiven, insertArgs(rows), few, many, true},
		{"insert one", d.q.insertOne, oneArgs(rows[0]), 2, 100, true},
		{"insert one given", d.q.insertOneGiven, oneArgs(rows[0]), 2, 100, true},
		{"run", d.q.loadRun, []any{uuid(run)}, few, few, false},
		{"approval", d.q.approval, []any{uuid(run)}, few, few, false},
		{"open approvals", d.q.undecided, []any{"t", "-infinity", driver.ID{}.String(), int64(planBatch)}, few, many, false},
		{"open run", d.q.openRun, []any{uuid(run), "op", "a", "t", nil, nil, nil}, few, few, true},
		{"seal run", d.q.sealRun, []any{uuid(run), "1", "t", "2", nil, nil}, few, few, true},
		{"propose", d.q.propose, []any{
			uuid(run), int64(1), "op", "a", "t", nil, nil, nil, make([]byte, 32), "p", nil, false,
		}, few, few, true},
		{"lock approval", d.q.lockApproval, []any{uuid(run)}, few, few, true},
		{"decide", d.q.decide, []any{uuid(run), int64(1), "b", nil, "confirm"}, few, few, true},
		{"consume", d.q.consume, []any{uuid(run), uuid(run)}, few, few, true},
	}
}

// TestPlans: every statement of the engine walks the index it was written for,
// whatever the tables hold and whatever the statistics say of them, and touches no
// more than it was asked for.
func TestPlans(t *testing.T) {
	d := open(t, connections(2))
	for _, table := range []string{"intent", "delivery", "attempt", "run", "resolution", "approval", "audit"} {
		d.exec(t, "ALTER TABLE {s}"+table+" SET (autovacuum_enabled = off)")
	}
	analyze := func() {
		for _, table := range []string{"intent", "delivery", "attempt", "run", "resolution", "approval", "audit"} {
			d.exec(t, "ANALYZE {s}"+table)
		}
	}
	conn, err := d.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	p := &planner{t: t, d: d, conn: conn.Conn(), prepared: map[string]bool{}}

	analyze()
	p.check(&stage{name: "empty"})
	d.exec(t, fillApprovals)
	d.exec(t, fmt.Sprintf(fillOpen, 20_000, planRoute))
	open := d.stage(t, "20,000 open, statistics of empty tables")
	p.check(open)
	analyze()
	open.name = "20,000 open"
	p.check(open)
	d.exec(t, fmt.Sprintf(fillEnded, 300_000, planRoute))
	// All but a few of the open ones end too.
	d.exec(t, "DELETE FROM {s}delivery WHERE due_at IS NOT NULL AND owner IS NULL AND gate_index IS DISTINCT FROM 1")
	ended := d.stage(t, "300,000 ended, statistics of 20,000 open")
	p.check(ended)
	analyze()
	ended.name = "300,000 ended"
	p.check(ended)
}

// stage looks at what there is now.
func (d *database) stage(t *testing.T, name string) *stage {
	t.Helper()
	r := request("m:mail", planBatch)
	claimed, err := d.Claim(t.Context(), r)
	if err != nil || len(claimed) != planBatch {
		t.Fatal(len(claimed), err)
	}
	s := &stage{name: name, claimed: claimed, open: one[int](t, d, "SELECT count(*) FROM {s}delivery WHERE due_at IS NOT NULL")}
	for _, condition := range []string{"due_at IS NOT NULL", "due_at IS NULL"} {
		var ids []string
		rows, err := d.pool.Query(t.Context(), d.expand("SELECT ref::text FROM {s}delivery WHERE "+condition+" LIMIT 50"))
		if err == nil {
			ids, err = pgx.CollectRows(rows, pgx.RowTo[string])
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range ids {
			ref, err := driver.ParseID(text)
			if err != nil {
				t.Fatal(err)
			}
			s.refs = append(s.refs, ref)
		}
	}
	return s
}

// planner explains statements on one connection, whose prepared ones live on from
// stage to stage as they do in a program.
type planner struct {
	t        *testing.T
	d        *database
	conn     *pgx.Conn
	prepared map[string]bool
}

// check explains every statement three ways: as it was prepared when the tables
// were empty, prepared now, and planned for its parameters as in the modes
// without prepared statements.
func (p *planner) check(s *stage) {
	p.t.Run(s.name, func(t *testing.T) {
		for _, c := range p.d.plans(t, s) {
			name := "s_" + strings.ReplaceAll(c.name, " ", "_")
			for _, way := range []string{"long prepared", "prepared now", "not prepared"} {
				if way == "long prepared" && p.prepared[name] {
					p.explain(t, s, &c, way, name, "force_generic_plan")
					continue
				}
				if p.prepared[name] {
					p.run(t, "DEALLOCATE "+name)
				}
				p.run(t, "PREPARE "+name+" AS "+c.sql)
				p.prepared[name] = true
				mode := "force_generic_plan"
				if way == "not prepared" {
					mode = "force_custom_plan"
				}
				p.explain(t, s, &c, way, name, mode)
			}
		}
	})
}

func (p *planner) run(t *testing.T, sql string) {
	t.Helper()
	if _, err := p.conn.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatalf("%v: %s", err, sql)
	}
}

// explain runs the statement, looks at its plan and undoes what it did.
func (p *planner) explain(t *testing.T, s *stage, c *plan, way, name, mode string) {
	t.Helper()
	tx, err := p.conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if !c.unaided {
		if _, err := tx.Exec(t.Context(), pinSQL); err != nil {
			t.Fatal(err)
		}
	}
	call := "EXECUTE " + name
	if len(c.args) > 0 {
		call += "(" + strings.Join(sqlLiterals(c.args), ", ") + ")"
	}
	if _, err := tx.Exec(t.Context(), "SET LOCAL plan_cache_mode = "+mode); err != nil {
		t.Fatal(err)
	}
	var raw string
	err = tx.QueryRow(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+call, pgx.QueryExecModeSimpleProtocol).Scan(&raw)
	if err != nil {
		t.Fatalf("%s: %v", c.name, err)
	}
	var top []struct{ Plan node }
	if err := json.Unmarshal([]byte(raw), &top); err != nil {
		t.Fatal(err)
	}
	faults := top[0].Plan.faults(c)
	if b := top[0].Plan.Hit + top[0].Plan.Read; b > c.buffers {
		faults = append(faults, fmt.Sprintf("%d buffers, at most %d", b, c.buffers))
	}
	if len(faults) > 0 {
		t.Errorf("%s, %s, %s:\n%s", c.name, s.name, way, strings.Join(faults, "\n"))
		if testing.Verbose() {
			t.Log(raw)
		}
	}
}

// sqlLiterals are args as SQL would write them.
func sqlLiterals(args []any) []string {
	var out []string
	for _, a := range literals(args) {
		switch v := a.(type) {
		case nil:
			out = append(out, "NULL")
		case string:
			out = append(out, "'"+strings.ReplaceAll(v, "'", "''")+"'")
		case []byte:
			out = append(out, `'\x`+hex.EncodeToString(v)+"'")
		case int64:
			out = append(out, strconv.FormatInt(v, 10))
		default:
			out = append(out, fmt.Sprint(v))
		}
	}
	return out
}

// node is one node of a plan, with what it really did.
type node struct {
	Type     string  `json:"Node Type"`
	Relation string  `json:"Relation Name"`
	Index    string  `json:"Index Name"`
	Rows     float64 `json:"Actual Rows"`
	Loops    float64 `json:"Actual Loops"`
	Filtered float64 `json:"Rows Removed by Filter"`
	Joined   float64 `json:"Rows Removed by Join Filter"`
	Hit      int     `json:"Shared Hit Blocks"`
	Read     int     `json:"Shared Read Blocks"`
	Plans    []node
}

// small tables have a handful of rows, whatever a program does.
var handful = []string{"program", "program_route", "setting", "pause"}

// faults is what is wrong with a plan, from this node down.
func (n *node) faults(c *plan) []string {
	var faults []string
	bad := func(what string) {
		faults = append(faults, fmt.Sprintf("%s on %s %s: %s (%.0f rows, %.0f filtered, %.0f loops)",
			n.Type, n.Relation, n.Index, what, n.Rows, n.Filtered, n.Loops))
	}
	switch n.Type {
	case "Seq Scan":
		// Nothing is pinned in a caller's transaction, so an empty table may be
		// looked through there.
		if !slices.Contains(handful, n.Relation) && !(c.unaided && n.Rows+n.Filtered == 0) {
			bad("a scan of the whole table")
		}
	case "Hash Join", "Merge Join", "Bitmap Heap Scan", "Gather":
		if !c.unaided {
			bad("a kind of plan that is pinned out")
		}
	}
	if touched := (n.Rows + n.Filtered + n.Joined) * n.Loops; touched > float64(c.rows) {
		bad(fmt.Sprintf("touches %.0f rows, at most %d", touched, c.rows))
	}
	for i := range n.Plans {
		faults = append(faults, n.Plans[i].faults(c)...)
	}
	return faults
}
