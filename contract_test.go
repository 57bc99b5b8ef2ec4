package consign_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/internal/driver/memory"
)

func TestNewReportsEveryFaultOfEveryChannel(t *testing.T) {
	_, err := consign.New(memory.New(), &consign.Options{Channels: []consign.Channel{
		{Name: "", Retry: 7},
		{Name: "crm", Lease: 30 * time.Second, Timeout: 20 * time.Second, Retry: consign.OnSchedule},
		{Name: "crm", Retry: consign.OnSchedule},
		{Name: "sms", MaxAttempts: 1001, MaxAge: -1, PayloadLimit: 1<<20 + 1, Waits: []time.Duration{-1}},
		{Name: "loop", MaxAttempts: 4},
		{Name: "final", Retry: consign.OnSchedule, Rejections: -1},
		{Name: "again", Rejections: 1},
		{Name: "long", Retry: consign.OnSchedule, Lease: 25 * time.Hour, Timeout: time.Microsecond},
	}})
	for _, want := range []string{
		"channels[0].name 0 bytes, limit 1 to 128",
		"channels[0].retry is neither InProcess nor OnSchedule",
		"channels[1].lease 30s is not longer than the effect's 20s plus the settle margin of 10s",
		"channels[2].name is declared twice",
		"channels[3].max_attempts 1001, limit 1 to 1000",
		"channels[3].max_age -1ns, limit 0s to",
		"channels[3].payload_limit 1048577 bytes, limit 1 to 1048576",
		"channels[3].waits[0] -1ns, limit 0s to 168h0m0s",
		"channels[4].lease 1m0s is not longer than the effect's 51s plus the settle margin of 10s", // 4 x 10 s + 1 s + 5 s + 5 s
		"channels[5].rejections -1, limit 0 to 1000",
		"channels[6].rejections are for channels with Retry: OnSchedule",
		"channels[7].lease 25h0m0s, limit 24h0m0s",
		"channels[7].timeout 1µs, at least 1ms",
	} {
		checkInvalid(t, "new", err, want)
	}
	_, err = consign.New[*memory.Tx](nil, nil)
	checkInvalid(t, "no store", err, "store is nil")
	if _, err := consign.New(memory.New(), nil); err != nil {
		t.Errorf("no options: %v", err)
	}
}

// The contract of a channel is what its messages are created with; a message of a
// channel that the program does not know waits for one that does.
func TestMessageCarriesTheContractOfItsChannel(t *testing.T) {
	o := consign.Options{Channels: []consign.Channel{
		{Name: "loop"},
		{Name: "hook", Retry: consign.OnSchedule, Idempotent: true, MaxAttempts: 5, Timeout: 3 * time.Second, Lease: 20 * time.Second},
	}}
	onEveryStore(t, o, func(t *testing.T, h *host) {
		for channel, want := range map[string]string{
			"loop":    "1 0 3 10000 60000",
			"hook":    "2 1 5 3000 20000",
			"unknown": "0 0 0 0 0",
		} {
			m := notice(1)
			m.Channel = channel
			if _, err := h.outbox.EnqueueNow(t.Context(), m); err != nil {
				t.Fatal(err)
			}
			got := h.text(t, `SELECT d.retry || ' ' || CASE WHEN d.idempotent THEN 1 ELSE 0 END || ' ' || coalesce(d.max_attempts, 0)
				|| ' ' || coalesce(d.timeout_ms, 0) || ' ' || coalesce(d.lease_ms, 0)
				FROM {s}delivery d JOIN {s}intent i ON i.ref = d.ref WHERE i.kind = '`+channel+`'`)
			if got != want {
				t.Errorf("%s: contract %q, want %q", channel, got, want)
			}
		}
	})
}

// Every part of a contract, the input's shape included, is in its fingerprint.
func TestFingerprintChangesWithEveryPartOfTheContract(t *testing.T) {
	type narrower struct {
		Ticket string `json:"ticket"`
	}
	type numbered struct {
		Ticket json.Number `json:"ticket"`
		Note   string      `json:"note,omitempty"`
	}
	type always struct {
		Ticket string `json:"ticket"`
		Note   string `json:"note"`
	}
	type renamed struct {
		Text     string `json:"note,omitempty"`
		internal int
		Number   string `json:"ticket"`
		Cached   int    `json:"-"`
	}
	base := triaged
	enqueue := map[string]func(run *consign.Run) error{
		"base":         work(base, noticeInput{}),
		"kind":         work(with(base, func(w *consign.Work[noticeInput]) { w.Kind = "k" }), noticeInput{}),
		"version":      work(with(base, func(w *consign.Work[noticeInput]) { w.Version = "2" }), noticeInput{}),
		"idempotent":   work(with(base, func(w *consign.Work[noticeInput]) { w.Idempotent = true }), noticeInput{}),
		"lease":        work(with(base, func(w *consign.Work[noticeInput]) { w.Lease = time.Hour }), noticeInput{}),
		"timeout":      work(with(base, func(w *consign.Work[noticeInput]) { w.Timeout = time.Second }), noticeInput{}),
		"max attempts": work(with(base, func(w *consign.Work[noticeInput]) { w.MaxAttempts = 4 }), noticeInput{}),
		"max age":      work(with(base, func(w *consign.Work[noticeInput]) { w.MaxAge = time.Hour }), noticeInput{}),
		"record":       work(with(base, func(w *consign.Work[noticeInput]) { w.Record = consign.Current }), noticeInput{}),
		"input":        work(consign.Work[narrower]{Kind: base.Kind}, narrower{}),
		"a number":     work(consign.Work[numbered]{Kind: base.Kind}, numbered{Ticket: "1"}),
		"always there": work(consign.Work[always]{Kind: base.Kind}, always{}),
	}
	onDesk(t, func(t *testing.T, h *host, _ *desk) {
		for _, enq := range enqueue {
			_, err := h.outbox.Run(t.Context(), admit, func(_ context.Context, _ *txn, run *consign.Run) error { return enq(run) })
			if err != nil {
				t.Fatal(err)
			}
		}
		if n := h.count(t, `SELECT count(DISTINCT fingerprint) FROM {s}intent`); n != len(enqueue) {
			t.Errorf("%d fingerprints of %d contracts", n, len(enqueue))
		}
		if n := h.count(t, `SELECT count(DISTINCT route) FROM {s}delivery`); n != len(enqueue) {
			t.Errorf("%d routes of %d contracts", n, len(enqueue))
		}
		// What is written out is the same contract as what is left to its default.
		spelled := base
		spelled.Version, spelled.Lease, spelled.Timeout = "1", time.Minute, 30*time.Second
		spelled.MaxAttempts, spelled.MaxAge = 3, 24*time.Hour
		_, err := h.outbox.Run(t.Context(), admit, func(_ context.Context, _ *txn, run *consign.Run) error {
			return work(spelled, noticeInput{})(run)
		})
		if n := h.count(t, `SELECT count(DISTINCT fingerprint) FROM {s}intent`); err != nil || n != len(enqueue) {
			t.Errorf("spelled out defaults are another contract: %d, %v", n, err)
		}
		// So is an input whose fields the program calls and orders in another way.
		_, err = h.outbox.Run(t.Context(), admit, func(_ context.Context, _ *txn, run *consign.Run) error {
			return work(consign.Work[renamed]{Kind: base.Kind}, renamed{internal: 1})(run)
		})
		if n := h.count(t, `SELECT count(DISTINCT fingerprint) FROM {s}intent`); err != nil || n != len(enqueue) {
			t.Errorf("renamed fields are another contract: %d, %v", n, err)
		}
		// The deadline comes from the maximum age: one contract of them has one hour.
		const hours = `SELECT count(*) FROM {s}delivery WHERE deadline IS NOT NULL AND max_age_ms = 3600000`
		if n := h.count(t, hours); n != 1 {
			t.Errorf("%d deliveries with a deadline of one hour, want 1", n)
		}
	})
}

func with[T any](w T, set func(*T)) T {
	set(&w)
	return w
}

func work[T any](w consign.Work[T], in T) func(*consign.Run) error {
	return func(run *consign.Run) error {
		_, err := w.Enqueue(run, "k", in)
		return err
	}
}

func TestWorkContractIsChecked(t *testing.T) {
	onDesk(t, func(t *testing.T, h *host, _ *desk) {
		_, err := h.outbox.Run(t.Context(), admit, func(_ context.Context, _ *txn, run *consign.Run) error {
			bad := consign.Work[noticeInput]{Kind: "k", Lease: 30 * time.Second, MaxAttempts: -1, MaxAge: 11 * 365 * 24 * time.Hour, Record: 5}
			err := work(bad, noticeInput{})(run)
			for _, want := range []string{
				"work.lease 30s is not longer than the effect's 30s plus the settle margin of 10s",
				"work.max_attempts -1, limit 1 to 1000", "work.max_age 96360h0m0s, limit 0s to", "work.record is neither",
			} {
				checkInvalid(t, "work", err, want)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

// A handler is a function of context, delivery and the kind's own input.
func TestOnlyAHandlerOfTheInputCompiles(t *testing.T) {
	const program = `package main

import (
	"context"

	"github.com/consign-go/consign"
)

type in struct{ A string }

var w consign.Work[in]

func main() { _ = w.Handler(%s) }
`
	checkCompiles(t, program, map[string]bool{
		"func(context.Context, *consign.Delivery, in) error { return nil }":  true,
		"func(context.Context, *consign.Delivery, *in) error { return nil }": false,
		"func(context.Context, *consign.Delivery, in) {}":                    false,
		"func(*consign.Delivery, in) error { return nil }":                   false,
	})
}

// Handing over a pool, a connection, a database or another store's transaction
// does not compile.
func TestOnlyTheStoresOwnTransactionCompiles(t *testing.T) {
	const program = `package main

import (
	"context"
	"database/sql"

	"github.com/consign-go/consign"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

func try(ctx context.Context, onPG *consign.Outbox[pgx.Tx], onSQL *consign.Outbox[*sql.Tx],
	tx pgx.Tx, pool *pgxpool.Pool, conn *pgx.Conn, db *sql.DB, stx *sql.Tx, sconn *sql.Conn) {
	var m consign.Message
	%s
	_, _, _, _, _, _ = tx, pool, conn, db, stx, sconn
}

func main() {}
`
	checkCompiles(t, program, map[string]bool{
		"onPG.Enqueue(ctx, tx, m); onSQL.Enqueue(ctx, stx, m)": true,
		"onPG.Enqueue(ctx, pool, m)":                           false,
		"onPG.Enqueue(ctx, conn, m)":                           false,
		"onPG.Enqueue(ctx, stx, m)":                            false,
		"onSQL.Enqueue(ctx, db, m)":                            false,
		"onSQL.Enqueue(ctx, sconn, m)":                         false,
		"onSQL.Enqueue(ctx, tx, m)":                            false,
	})
}

// checkCompiles puts each line into the program and looks whether it compiles.
func checkCompiles(t *testing.T, program string, lines map[string]bool) {
	t.Helper()
	dir, err := os.MkdirTemp(".", "testdata-compile-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	for line, compiles := range lines {
		file := filepath.Join(dir, "main.go")
		if err := os.WriteFile(file, []byte(strings.Replace(program, "%s", line, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), "go", "vet", "./"+file).CombinedOutput()
		if compiles != (err == nil) {
			t.Errorf("%s: compiles is %v, want %v\n%s", line, err == nil, compiles, out)
		}
		if !compiles && !strings.Contains(string(out), "cannot use") {
			t.Errorf("%s: it fails for another reason:\n%s", line, out)
		}
	}
}
