package console

import (
	"net/http"
	"net/netip"
	"slices"

	"github.com/consign-go/consign"
)

// Role is how much somebody may do. Each role may do what those before it may.
type Role string

// The roles.
const (
	Viewer   Role = "viewer"
	Operator Role = "operator"
	Admin    Role = "admin"
)

var roles = []Role{Viewer, Operator, Admin}

// reaches reports whether r is least or more. What is no role reaches nothing.
func (r Role) reaches(least Role) bool {
	have, want := slices.Index(roles, r), slices.Index(roles, least)
	return have >= 0 && want >= 0 && have >= want
}

// Permission is something that not everybody may do.
type Permission string

// The permissions, with the least role that has each unless Options.Permissions
// says otherwise.
const (
	Look    Permission = "look"    // Viewer: every page, without what intents say
	Resolve Permission = "resolve" // Operator: record findings, accept late evidence and proofs, hand in proofs
	Resend  Permission = "resend"  // Operator: redeliver and reissue
	Cancel  Permission = "cancel"  // Operator
	Pause   Permission = "pause"   // Operator: pause and resume kinds and channels
	Decide  Permission = "decide"  // Operator: confirm and dismiss approvals
	Bulk    Permission = "bulk"    // Admin: many at once; what is done to them is needed besides
	Content Permission = "content" // Admin: what an intent says; each look is audited
)

var usual = map[Permission]Role{
	Look: Viewer, Resolve: Operator, Resend: Operator, Cancel: Operator, Pause: Operator, Decide: Operator,
	Bulk: Admin, Content: Admin,
}

// Identity is somebody who has been authenticated.
type Identity struct {
	// Name is written to the audit: 1 to 128 bytes of UTF-8 without control
	// characters.
	Name string

	Role Role

	// Entity is who they are in approvals: as whom a proposal was made, if they made
	// one. A rule that the proposer may not confirm compares it. Default:
	// {"user", Name}.
	Entity consign.Entity
}

func (i *Identity) entity() consign.Entity {
	if i.Entity == (consign.Entity{}) {
		return consign.Entity{Type: "user", ID: i.Name}
	}
	return i.Entity
}

// User is somebody who signs in with a password.
type User struct {
	Identity

	// Password is what [HashPassword] returned.
	Password string
}

// Check returns what is wrong with a user, as consign.ErrInvalid: with the name, the
// role or what should be a password's hash.
func (u User) Check() error {
	var fs faults
	if fs.user("user", u); len(fs) > 0 {
		return &consign.Error{Op: "check user", Faults: fs, Err: consign.ErrInvalid}
	}
	return nil
}

// Proxy trusts a reverse proxy that authenticates people and says in headers who
// they are. The proxy must remove these headers from what it is sent.
type Proxy struct {
	// Networks are where the proxy connects from. The headers of everybody else are
	// ignored, so nobody else is signed in. Required.
	Networks []netip.Prefix

	// Name is the header with the name. Required, such as "X-Forwarded-User".
	Name string

	// Role is the header with the role, in the words of [Role]. Default: none;
	// everybody is a Viewer unless Roles says otherwise.
	Role string

	// Roles are the roles of people by name. They count before the header.
	Roles map[string]Role
}

// identify reads the headers; false: they say nobody, or it is not the proxy.
func (p *Proxy) identify(r *http.Request) (Identity, bool) {
	peer, ok := peerOf(r)
	if !ok || !within(peer, p.Networks) {
		return Identity{}, false
	}
	names := r.Header.Values(p.Name)
	if len(names) != 1 || !isName(names[0]) {
		return Identity{}, false // two of them: one is not the proxy's
	}
	who := Identity{Name: names[0], Role: Viewer}
	if p.Role != "" {
		given := r.Header.Values(p.Role)
		if len(given) > 1 {
			return Identity{}, false
		}
		who.Role = ""
		if len(given) == 1 {
			who.Role = Role(given[0])
		}
	}
	if role, ok := p.Roles[who.Name]; ok {
		who.Role = role
	}
	return who, slices.Contains(roles, who.Role)
}
