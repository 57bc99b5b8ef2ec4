package console

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/operator"
)

// Options are the optional parts of a [Console]. The zero value lets in this machine
// alone, and there only who has a one-time link.
type Options struct {
	// Users sign in with name and password. Default: nobody.
	Users []User

	// Proxy says who is there, in headers. Default: no proxy is trusted.
	Proxy *Proxy

	// Host says who is there, where the program has authenticated the request itself;
	// false: nobody. It is asked first. Default: it is not asked.
	Host func(r *http.Request) (Identity, bool)

	// Proofs checks proofs that people hand in; the program's *consign.Outbox is one.
	// Default: none can be handed in.
	Proofs operator.Checker

	// Permissions is the least role for each permission named. Default: as said at the
	// permissions.
	Permissions map[Permission]Role

	// May is asked besides, for each page and action; both have to agree. Default: the
	// role decides alone.
	May func(ctx context.Context, who Identity, p Permission) bool

	// Networks are from where the console can be reached. Default: from this machine,
	// through a loopback address or a Unix socket.
	Networks []netip.Prefix

	// Hosts are the names, without port, under which browsers may reach it. Default:
	// any where Networks are given; otherwise loopback addresses and "localhost", so
	// that a page whose name was pointed at this machine gets nothing.
	Hosts []string

	// TLS says that browsers reach it through TLS, which a proxy in front of it ends.
	// Default: what the request itself shows.
	TLS bool

	// Path is where it is mounted, as browsers see it, such as "/ops/consign".
	// Default: what [http.StripPrefix] took away.
	Path string

	// Idle is how long a session lasts without a page being opened. Default: 30 min.
	Idle time.Duration

	// Absolute is how long a session lasts at most. Default: 12 h.
	Absolute time.Duration

	// Timeout is how long the database may take for a page. Default: 5 s.
	Timeout time.Duration

	// Refresh is how old counts may be that all visitors share. The database is asked
	// for them once in that time at most, and not at all while nobody looks.
	// Default: 5 s.
	Refresh time.Duration

	// Key makes forms valid in each of several processes behind one name: 32 bytes or
	// more, secret. Sessions stay with their process. Default: a fresh key.
	Key []byte

	// Title tells consoles apart, such as "production". Default: nothing.
	Title string

	// Logger takes what goes wrong on the server, without content. Default:
	// [slog.Default].
	Logger *slog.Logger

	now func() time.Time // the clock of sessions and limits
}

// faults collects what is wrong with the options.
type faults []consign.Fault

func (fs *faults) add(field, rule string) { *fs = append(*fs, consign.Fault{Field: field, Rule: rule}) }

// check returns everything that is wrong with o.
func (o *Options) check() (fs faults) {
	fs.users(o.Users)
	if p := o.Proxy; p != nil {
		if len(p.Networks) == 0 {
			fs.add("proxy.networks", "are required")
		}
		fs.header("proxy.name", p.Name, true)
		fs.header("proxy.role", p.Role, false)
		for name, role := range p.Roles {
			fs.identity("proxy.roles", Identity{Name: name, Role: role})
		}
	}
	for p, r := range o.Permissions {
		if usual[p] == "" {
			fs.add("permissions", "one is none of the permissions")
		}
		if !r.reaches(Viewer) {
			fs.add("permissions", "one needs what is no role")
		}
	}
	for _, n := range o.Networks {
		if !n.IsValid() {
			fs.add("networks", "one is not valid")
		}
	}
	if o.Path != "" && !isBase(o.Path) {
		fs.add("path", `is not like "/ops/consign"`)
	}
	for _, d := range []struct {
		field string
		d     time.Duration
	}{{"idle", o.Idle}, {"absolute", o.Absolute}, {"timeout", o.Timeout}, {"refresh", o.Refresh}} {
		if d.d < 0 {
			fs.add(d.field, "is negative")
		}
	}
	if o.Key != nil && len(o.Key) < 32 {
		fs.add("key", strconv.Itoa(len(o.Key))+" bytes, limit 32 and more")
	}
	if len(o.Title) > 64 || !utf8.ValidString(o.Title) {
		fs.add("title", strconv.Itoa(len(o.Title))+" bytes, limit 64 of UTF-8")
	}
	return fs
}

func (fs *faults) users(users []User) {
	seen := map[string]bool{}
	for i, u := range users {
		field := "users[" + strconv.Itoa(i) + "]"
		fs.user(field, u)
		if seen[u.Name] {
			fs.add(field+".name", "is there twice")
		}
		seen[u.Name] = true
	}
}

func (fs *faults) user(field string, u User) {
	fs.identity(field, u.Identity)
	if _, err := readHash(u.Password); err != nil {
		fs.add(field+".password", err.Error())
	}
}

func (fs *faults) identity(field string, who Identity) {
	if !isName(who.Name) {
		fs.add(field+".name", "has not 1 to 128 bytes of UTF-8 without control characters")
	}
	if !who.Role.reaches(Viewer) {
		fs.add(field+".role", `is none of "viewer", "operator", "admin"`)
	}
}

func (fs *faults) header(field, name string, needed bool) {
	if name == "" && !needed {
		return
	}
	ok := name != ""
	for _, r := range name {
		ok = ok && (r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z')
	}
	if !ok {
		fs.add(field, "is not the name of a header")
	}
}

// isName reports whether s can stand for a person in the audit.
func isName(s string) bool {
	return len(s) >= 1 && len(s) <= 128 && utf8.ValidString(s) && strings.TrimSpace(s) != "" && !strings.ContainsFunc(s, unicode.IsControl)
}

// isBase reports whether s is a path below which the console can be: links begin
// with it, so it must not lead to another host.
func isBase(s string) bool {
	u, err := url.Parse(s)
	return err == nil && strings.HasPrefix(s, "/") && !strings.HasSuffix(s, "/") && !strings.Contains(s, "//") &&
		!strings.ContainsAny(s, "\\?#") && u.Host == "" && !strings.ContainsFunc(s, unicode.IsControl)
}

func (o *Options) fill() {
	or := func(d *time.Duration, usual time.Duration) {
		if *d == 0 {
			*d = usual
		}
	}
	or(&o.Idle, 30*time.Minute)
	or(&o.Absolute, 12*time.Hour)
	or(&o.Timeout, 5*time.Second)
	or(&o.Refresh, 5*time.Second)
	if o.Key == nil {
		o.Key = []byte(fresh())
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.now == nil {
		o.now = time.Now
	}
}
