package postgres

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/consign-go/consign/internal/pgtest"
)

// TestAdviceNamesEachSetting misconfigures what can be, one at a time.
func TestAdviceNamesEachSetting(t *testing.T) {
	usual := func(*pgxpool.Config) {}
	for name, c := range map[string]struct {
		option func(c *pgxpool.Config)
		want   string
	}{
		"nothing":             {usual, ""},
		"asynchronous commit": {func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["synchronous_commit"] = "off" }, "synchronous_commit is off"},
		"read only":           {func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on" }, "default_transaction_read_only is on"},
		"small pool":          {func(c *pgxpool.Config) { c.MaxConns = 2 }, "the pool has 2 connections"},
	} {
		t.Run(name, func(t *testing.T) {
			d := openIn(t, pgtest.Pool(t), pgtest.Schema(t))
			pool := pgtest.Pool(t, func(cfg *pgxpool.Config) { cfg.MaxConns = 8; c.option(cfg) })
			s, err := New(pool, &Options{Schema: d.schema})
			if err != nil {
				t.Fatal(err)
			}
			advice, err := s.Advise(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if c.want == "" && len(advice) == 0 {
				return
			}
			if len(advice) != 1 || !strings.HasPrefix(advice[0], c.want) || c.want == "" || !strings.Contains(advice[0], ": ") {
				t.Errorf("%q, want one that begins with %q", advice, c.want)
			}
		})
	}
}

// TestAdviceIsOnFacts shows the sentences that a test server cannot be made to say.
func TestAdviceIsOnFacts(t *testing.T) {
	good := facts{synchronous: "on", fsync: "on", fullPages: "on", readOnly: "off", version: 150004}
	for want, change := range map[string]func(f *facts){
		"":                            func(*facts) {},
		"this server is a replica":    func(f *facts) { f.replica = true },
		"fsync is off":                func(f *facts) { f.fsync = "off" },
		"full_page_writes is off":     func(f *facts) { f.fullPages = "off" },
		"the server is older than Po": func(f *facts) { f.version = 130010 },
	} {
		f := good
		change(&f)
		var said []string
		for _, r := range recommended {
			if r.wrong(&f) {
				said = append(said, r.say)
			}
		}
		if got := strings.Join(said, "\n"); want == "" && got != "" || !strings.HasPrefix(got, want) || len(said) > 1 {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestHearsTellsADeadListen: on a direct connection hints arrive, behind PgBouncer
// in transaction mode they do not.
func TestHearsTellsADeadListen(t *testing.T) {
	d := open(t)
	if hears, err := d.Hears(t.Context()); !hears || err != nil {
		t.Errorf("on a direct connection: %t, %v", hears, err)
	}
	url := pgtest.Bouncer(t, 2)
	pool := pgtest.Pool(t, func(c *pgxpool.Config) {
		through, err := pgx.ParseConfig(url)
		if err != nil {
			t.Fatal(err)
		}
		through.DefaultQueryExecMode = pgx.QueryExecModeExec
		c.ConnConfig = through
	})
	s, err := New(pool, &Options{Schema: d.schema})
	if err != nil {
		t.Fatal(err)
	}
	s.bound.hear.silence = silence / 4
	if hears, err := s.Hears(t.Context()); hears || err != nil {
		t.Errorf("behind a pooler in transaction mode: %t, %v", hears, err)
	}
}
