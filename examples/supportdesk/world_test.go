package supportdesk_test

import (
	"context"
	"database/sql"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/consigntest"
	"github.com/consign-go/consign/examples/supportdesk"
	"github.com/consign-go/consign/internal/pgtest"
	"github.com/consign-go/consign/migrate"
	"github.com/consign-go/consign/postgres"
	"github.com/consign-go/consign/sqlite"
	"github.com/consign-go/consign/webhook"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// world is a desk, its database, and a far side that listens on a real socket.
// Tenant acme has the tickets 41 and 42; ann (staff 7) works on them and bob (staff
// 8) confirms what she proposes.
type world struct {
	*testing.T
	*supportdesk.Desk
	db    *sql.DB
	store *consigntest.Store[*sql.Tx]
	far   *far
	table string // what the names of Consign's tables begin with
}

// everywhere runs a test on SQLite and on PostgreSQL.
func everywhere(t *testing.T, test func(w *world)) {
	t.Run("sqlite", func(t *testing.T) {
		// As the store recommends it, but for the disk: no test here pulls the plug.
		db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "desk.db")+
			"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)&_pragma=synchronous(OFF)&_txlock=immediate")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		store, err := sqlite.New(db, nil)
		test(opened(t, db, store, err, "consign_"))
	})
	t.Run("postgres", func(t *testing.T) {
		schema := pgtest.Schema(t) // for the desk's tables and for Consign's
		pool := pgtest.Pool(t, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["search_path"] = schema })
		db := stdlib.OpenDBFromPool(pool)
		t.Cleanup(func() { db.Close() })
		store, err := postgres.NewSQL(pool, db, &postgres.Options{Schema: schema})
		test(opened(t, db, store, err, ""))
	})
}

func opened[S interface {
	consign.Store[*sql.Tx]
	migrate.Store
}](t *testing.T, db *sql.DB, store S, err error, table string) *world {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrate.Up(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, db: db, store: consigntest.On(store), far: listen(t), table: table}
	w.Desk, err = supportdesk.New(db, w.store, supportdesk.Options{
		CRM: w.far.at(t, "/crm"), Channels: []consign.Channel{w.far.at(t, "/mail").Channel(supportdesk.Mail)},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.do(w.Create(t.Context()))
	w.begin()
	return w
}

// begin makes the desk's tables what they are at the beginning.
func (w *world) begin() {
	w.Helper()
	t := w.T
	for _, table := range []string{"tenant", "staff", "permission", "ticket", "answer"} {
		w.change(`DELETE FROM ` + table)
	}
	w.far.forget()
	w.do(w.AddTenant(t.Context(), "acme"))
	w.do(w.Hire(t.Context(), "acme", "7", supportdesk.ProposeTriage, supportdesk.RunTriage, supportdesk.ReadTriage,
		supportdesk.DeliverTriage, supportdesk.RunClose, supportdesk.DeliverClose))
	w.do(w.Hire(t.Context(), "acme", "8", supportdesk.ProposeTriage, supportdesk.ConfirmTriage))
	w.do(w.File(t.Context(), "acme", "41", "kim@example.org"))
	w.do(w.File(t.Context(), "acme", "42", "kim@example.org"))
}

// anew runs a part of a test in a world that begins anew.
func (w *world) anew(name string, test func(w *world)) {
	w.Run(name, func(t *testing.T) {
		part := *w
		part.T = t
		part.begin()
		test(&part)
	})
}

func (w *world) do(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// change is something that happens in the desk's own tables.
func (w *world) change(query string) {
	w.Helper()
	_, err := w.db.ExecContext(w.Context(), query)
	w.do(err)
}

func (w *world) count(query string) (n int) {
	w.Helper()
	w.do(w.db.QueryRowContext(w.Context(), query).Scan(&n))
	return n
}

// rows counts everything that Consign has stored, but for approvals.
func (w *world) rows() (n int) {
	w.Helper()
	for _, table := range []string{"intent", "delivery", "attempt", "run", "audit"} {
		n += w.count(`SELECT count(*) FROM ` + w.table + table)
	}
	return n
}

var order = supportdesk.Order{Tenant: "acme", Staff: "7", Ticket: "41"}

// approved is a triage of ticket 41 that ann has proposed and bob has confirmed.
func (w *world) approved() consign.ID {
	w.Helper()
	id, err := w.ProposeTriage(w.Context(), order, "urgent", "the shop is down")
	w.do(err)
	w.do(w.ConfirmTriage(w.Context(), "acme", "8", id))
	return id
}

// triaged triages ticket 41 and returns the work that this left.
func (w *world) triaged() consign.Ref {
	w.Helper()
	receipt, err := w.Triage(w.Context(), order, "urgent", w.approved())
	w.do(err)
	return receipt.Work[0]
}

// visit tries to deliver.
func (w *world) visit(ref consign.Ref) {
	w.Helper()
	_, err := w.Outbox.Visit(w.Context(), ref)
	w.do(err)
}

// want compares what is stored of a delivery, and what has reached the far side.
func (w *world) want(ref consign.Ref, status consign.Status, code consign.Code, attempts, arrived int) {
	w.Helper()
	i, err := w.Outbox.Find(w.Context(), ref)
	w.do(err)
	if i.Status != status || i.Code != code || i.Attempts != attempts || len(w.far.got()) != arrived {
		w.Errorf("%s %q after %d attempts, %d requests arrived; want %s %q, %d and %d (%s)",
			i.Status, i.Code, i.Attempts, len(w.far.got()), status, code, attempts, arrived, i.LastError)
	}
}

// far is the far side: the CRM and a gateway for mail. It answers 204, or what it is
// told to answer next.
type far struct {
	url string

	mu       sync.Mutex
	requests []request
	next     []int
}

type request struct{ path, key, body string }

func listen(t *testing.T) *far {
	f := &far{}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	f.url = server.URL
	return f
}

func (f *far) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests = append(f.requests, request{r.URL.Path, r.Header.Get("Webhook-Id"), string(body)})
	status := http.StatusNoContent
	if len(f.next) > 0 {
		status, f.next = f.next[0], f.next[1:]
	}
	w.WriteHeader(status)
}

// answers says what the next requests are answered.
func (f *far) answers(statuses ...int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next = statuses
}

// forget is what the far side does with what has arrived.
func (f *far) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests, f.next = nil, nil
}

func (f *far) got() []request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]request(nil), f.requests...)
}

// at is the way to a path of the far side.
func (f *far) at(t *testing.T, path string) *webhook.Endpoint {
	t.Helper()
	u, err := url.Parse(f.url)
	if err != nil {
		t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(u.Host)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	e, err := webhook.New(webhook.Options{
		URL: f.url + path, Idempotent: true,
		// It is on this machine, and speaks no TLS.
		Plaintext: true, Ports: []uint16{uint16(n)}, Allow: []netip.Prefix{netip.PrefixFrom(netip.MustParseAddr(host), 32)},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

// program opens another outbox on the same database: another release of the desk,
// which waits that long for a release that serves what it does not.
func (w *world) program(h consign.Handler, grace time.Duration) *consign.Outbox[*sql.Tx] {
	w.Helper()
	o, err := consign.New(w.store, &consign.Options{
		Handlers: []consign.Handler{h}, Authority: supportdesk.Authority{}, HandlerGrace: grace,
	})
	w.do(err)
	return o
}

// between is the desk with something that happens between the preparation of a
// notice and its effect.
func (w *world) between(happens func()) *consign.Outbox[*sql.Tx] {
	return w.program(supportdesk.Notice.Handler(func(ctx context.Context, d *consign.Delivery, in supportdesk.NoticeInput) error {
		happens()
		return w.DeliverNotice(ctx, d, in)
	}), 0)
}
