package config

import (
	"errors"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/console"
)

// ConsolePath is where the daemon's web console is.
const ConsolePath = "/console"

// Console is how the daemon shows its web console.
type Console struct {
	Off     bool
	Options console.Options
}

// Alike reports whether another is the same but for its users.
func (c *Console) Alike(other *Console) bool {
	a, b := *c, *other
	a.Options.Users, b.Options.Users = nil, nil
	return reflect.DeepEqual(a, b)
}

// console reads [console], with [console.users.NAME] and [console.proxy].
func (l *loader) console(t *table, into *Console) {
	on, o := true, &into.Options
	t.flag("enabled", &on)
	into.Off = !on
	o.Path = ConsolePath
	t.text("title", &o.Title)
	t.flag("tls", &o.TLS)
	o.Hosts, o.Networks = t.texts("hosts"), t.networks("networks")
	if users, ok := read[map[string]any](t, "users", "table of users"); ok {
		for _, name := range slices.Sorted(maps.Keys(users)) {
			path := "console.users." + name
			below, ok := users[name].(map[string]any)
			if !ok {
				l.add("", path, "is no table")
				continue
			}
			o.Users = append(o.Users, l.user(l.table(path, "", below), name))
		}
	}
	if values, ok := read[map[string]any](t, "proxy", "table"); ok {
		proxy := l.table("console.proxy", "", values)
		o.Proxy = &console.Proxy{Networks: proxy.networks("networks")}
		proxy.text("name", &o.Proxy.Name)
		proxy.text("role", &o.Proxy.Role)
		proxy.done()
	}
	t.done()
}

// user reads one person. The password's hash is as good as the password to whoever
// guesses at it, so it does not stand in the file.
func (l *loader) user(t *table, name string) console.User {
	var role string
	t.text("role", &role)
	hash := t.secret("password_hash")
	u := console.User{Identity: console.Identity{Name: name, Role: console.Role(role)}, Password: hash.text}
	_, env := t.values["password_hash_env"]
	if _, file := t.values["password_hash_file"]; !env && !file {
		t.fault("password_hash_file", "or password_hash_env is missing: it names what \"consign hash-password\" printed")
	}
	var wrong *consign.Error
	if !errors.As(u.Check(), &wrong) {
		wrong = &consign.Error{}
	}
	for _, f := range wrong.Faults {
		switch {
		case f.Field == "user.role":
			t.fault("role", f.Rule)
		case f.Field == "user.name":
			t.load.add("", t.path, "the name "+f.Rule)
		case hash.text != "": // one that is missing has been told
			t.fault(hash.from, "what it names "+strings.Replace(f.Rule, "HashPassword returns", "\"consign hash-password\" printed", 1))
		}
	}
	t.done()
	return u
}

// networks reads a list of networks.
func (t *table) networks(key string) (out []netip.Prefix) {
	for _, s := range t.texts(key) {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			t.fault(key, `is no list of networks, like "10.0.0.0/8"`)
			continue
		}
		out = append(out, p)
	}
	return out
}
