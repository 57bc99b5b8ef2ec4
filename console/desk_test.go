package console

import (
	"database/sql"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/approval"
	"github.com/consign-go/consign/internal/pgtest"
	"github.com/consign-go/consign/internal/scene"
	"github.com/consign-go/consign/migrate"
	"github.com/consign-go/consign/operator"
	"github.com/consign-go/consign/postgres"
	"github.com/consign-go/consign/sqlite"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// desk is a console on a database of its own, with people at it.
type desk struct {
	*testing.T
	*scene.Scene
	console  *Console
	operator *operator.Operator
	server   *httptest.Server
	base     string
	clock    clock
	propose  func(p approval.Proposal) consign.ID
}

// clock is what sessions and limits go by.
type clock struct {
	mu   sync.Mutex
	time time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.time = c.time.Add(time.Microsecond) // so that what was read before is old
	return c.time
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.time = c.time.Add(d)
}

const password = "correct horse battery"

// hash is made once, with as few rounds as are taken: it takes long on purpose.
var hash = sync.OnceValue(func() string {
	h, err := hashOf(password, fewest)
	if err != nil {
		panic(err)
	}
	return h
})

func people() []User {
	return []User{
		{Identity{Name: "vera", Role: Viewer}, hash()}, {Identity{Name: "otto", Role: Operator}, hash()},
		{Identity{Name: "olga", Role: Operator}, hash()}, {Identity{Name: "anna", Role: Admin}, hash()},
	}
}

// open is a console on an SQLite file, mounted at a path.
func open(t *testing.T, o Options) *desk {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "desk.db")+"?_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	store, err := sqlite.New(db, nil)
	if err != nil {
		t.Fatal(err)
	}
	return assemble(t, store, o, func(ref consign.Ref, at time.Time) error {
		_, err := db.ExecContext(t.Context(), "UPDATE consign_delivery SET lease_until = ?, review_at = ? WHERE ref = ?",
			at.UnixMicro(), at.UnixMicro(), ref.ID[:])
		return err
	})
}

// onPostgres is one on PostgreSQL.
func onPostgres(t *testing.T, o Options) *desk {
	t.Helper()
	pool, schema := pgtest.Pool(t), pgtest.Schema(t)
	store, err := postgres.New(pool, &postgres.Options{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	return assemble(t, store, o, func(ref consign.Ref, at time.Time) error {
		_, err := pool.Exec(t.Context(), "UPDATE "+schema+".delivery SET lease_until = $1, review_at = $1 WHERE ref = $2", at, ref.ID)
		return err
	})
}

func assemble[TX any, S interface {
	consign.Store[TX]
	migrate.Store
}](t *testing.T, store S, o Options, expire func(consign.Ref, time.Time) error) *desk {
	t.Helper()
	if _, err := migrate.Up(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	d := &desk{T: t, Scene: scene.New[TX](t.Context(), t, store, expire), clock: clock{time: time.Now()}}
	if o.Users == nil && o.Proxy == nil && o.Host == nil {
		o.Users = people()
	}
	o.now, o.Refresh = d.clock.now, time.Nanosecond
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	var err error
	if d.console, err = New[TX](store, &o); err != nil {
		t.Fatal(err)
	}
	if d.operator, err = operator.New[TX](store); err != nil {
		t.Fatal(err)
	}
	approvals, err := approval.New[TX](store)
	if err != nil {
		t.Fatal(err)
	}
	d.propose = func(p approval.Proposal) consign.ID {
		t.Helper()
		id, err := approvals.ProposeNow(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	mux := http.NewServeMux()
	mux.Handle("/ops/consign/", http.StripPrefix("/ops/consign", d.console))
	d.server = httptest.NewServer(mux)
	t.Cleanup(d.server.Close)
	d.base = d.server.URL + "/ops/consign"
	return d
}

// person is a browser without script.
type person struct {
	*desk
	client *http.Client
	header http.Header
}

// answer is what a browser got.
type answer struct {
	status int
	body   string
	header http.Header
	path   string // where it ended up, below the console, with the query
}

func (d *desk) somebody() *person {
	return &person{desk: d, client: &http.Client{Jar: newJar()}, header: http.Header{}}
}

// person is somebody who has signed in. The password is checked elsewhere: hashing it
// takes long on purpose.
func (d *desk) person(name string) *person {
	d.Helper()
	p := d.somebody()
	for _, u := range *d.console.users.Load() {
		if u.Name == name {
			p.client.Jar.SetCookies(mustParse(d.base+"/"), []*http.Cookie{{
				Name: sessionCookie, Value: d.console.sessions.begin(u.Identity), Path: "/ops/consign/",
			}})
			return p
		}
	}
	d.Fatalf("there is no %s", name)
	return nil
}

func (p *person) signIn(name, word string) answer {
	p.Helper()
	form := p.get("/sign-in")
	return p.post("/sign-in", url.Values{"token": {tokenIn(form.body)}, "name": {name}, "password": {word}, "next": {"/"}})
}

func (p *person) do(method, path string, form url.Values) answer {
	p.Helper()
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	r, err := http.NewRequestWithContext(p.Context(), method, p.base+path, body)
	if err != nil {
		p.Fatal(err)
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for name, values := range p.header {
		r.Header[name] = values
	}
	if host := p.header.Get("Host"); host != "" {
		r.Host = host
	}
	resp, err := p.client.Do(r)
	if err != nil {
		p.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		p.Fatal(err)
	}
	return answer{resp.StatusCode, string(text), resp.Header, strings.TrimPrefix(resp.Request.URL.RequestURI(), "/ops/consign")}
}

func (p *person) get(path string) answer { p.Helper(); return p.do("GET", path, nil) }

func (p *person) post(path string, form url.Values) answer {
	p.Helper()
	return p.do("POST", path, form)
}

var token = regexp.MustCompile(`name="token" value="([^"]+)"`)

func tokenIn(body string) string {
	if m := token.FindStringSubmatch(body); m != nil {
		return m[1]
	}
	return ""
}

// act sends a form of a page, with the page's own token.
func (p *person) act(page, action string, form url.Values) answer {
	p.Helper()
	form.Set("token", tokenIn(p.get(page).body))
	if !form.Has("why") {
		form.Set("why", "weekly look")
	}
	return p.post(action, form)
}

// want fails where an answer is another, or lacks a text.
func (d *desk) want(a answer, status int, texts ...string) {
	d.Helper()
	if a.status != status {
		d.Errorf("%s answered %d, want %d:\n%s", a.path, a.status, status, inner(a.body))
	}
	for _, text := range texts {
		if !strings.Contains(a.body, text) {
			d.Errorf("%s has no %q:\n%s", a.path, text, inner(a.body))
		}
	}
}

// without fails where an answer has a text.
func (d *desk) without(a answer, texts ...string) {
	d.Helper()
	for _, text := range texts {
		if strings.Contains(a.body, text) {
			d.Errorf("%s has %q:\n%s", a.path, text, inner(a.body))
		}
	}
}

// inner is the part of a page that is its own.
func inner(body string) string {
	if i := strings.Index(body, "<main"); i >= 0 {
		return body[i:]
	}
	return body
}

// audited lists actions of the audit, the oldest first.
func (d *desk) audited() (all []string) {
	d.Helper()
	rows, err := d.operator.Audit(d.Context(), operator.AuditFilter{})
	if err != nil {
		d.Fatal(err)
	}
	for _, r := range rows {
		all = append([]string{r.By + " " + r.Action}, all...)
	}
	return all
}
