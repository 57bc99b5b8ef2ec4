package console

import (
	"crypto/sha256"
	"errors"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/consign-go/consign"
)

// links are one-time links that were not followed yet.
type links struct {
	now func() time.Time

	mu   sync.Mutex
	open map[[32]byte]link
}

type link struct {
	who   Identity
	until time.Time
}

// linkTime is how long a link is good for.
const linkTime = 15 * time.Minute

// SignInLink returns a link with which one person signs in as who, once, within 15
// minutes. It is for somebody who can read the output of the program and needs no
// account. base is the console's address in a browser, such as
// "http://127.0.0.1:8484/console". Whoever has the link can use it, so it must not be
// logged. A new link replaces those before it.
func (c *Console) SignInLink(base string, who Identity) (string, error) {
	var fs faults
	fs.identity("who", who)
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		fs.add("base", "is no http or https address without a query")
	}
	if len(fs) > 0 {
		return "", &consign.Error{Op: "sign-in link", Faults: fs, Err: consign.ErrInvalid}
	}
	token := fresh()
	c.links.mu.Lock()
	defer c.links.mu.Unlock()
	clear(c.links.open)
	c.links.open[sha256.Sum256([]byte(token))] = link{who, c.o.now().Add(linkTime)}
	return strings.TrimSuffix(base, "/") + "/link?token=" + token, nil
}

// follow uses a link up.
func (l *links) follow(token string) (Identity, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := sha256.Sum256([]byte(token))
	found, ok := l.open[key]
	delete(l.open, key)
	return found.who, ok && l.now().Before(found.until)
}

// signingIn is what the sign-in page shows.
type signingIn struct {
	Next  string
	Token string
	Wrong string
	Link  string // the one-time token, where there is one
	Users bool
}

// signInForm shows the form, with a cookie that ties it to the browser.
func (c *Console) signInForm(w http.ResponseWriter, v *visit, status int, s signingIn) {
	holder := c.cookie(v.r, formCookie)
	if holder == "" {
		holder = fresh()
		c.setCookie(w, v, formCookie, holder)
	}
	s.Token, s.Users = c.token("form\x00"+holder), len(*c.users.Load()) > 0
	c.render(w, v, reply{status: status, page: "signin", title: "Sign in", data: s})
}

// tied reports whether a sign-in form belongs to the browser that sends it.
func (c *Console) tied(r *http.Request) bool {
	holder := c.cookie(r, formCookie)
	return c.foreign.Check(r) == nil && holder != "" && c.isToken(r.PostFormValue("token"), "form\x00"+holder)
}

func (c *Console) signInPage(w http.ResponseWriter, r *http.Request) {
	v := visitOf(r)
	next := local(r.URL.Query().Get("next"))
	if v.in {
		http.Redirect(w, r, v.base+next, http.StatusSeeOther)
		return
	}
	c.signInForm(w, v, http.StatusOK, signingIn{Next: next})
}

func (c *Console) signIn(w http.ResponseWriter, r *http.Request) {
	v := visitOf(r)
	next, name := local(r.PostFormValue("next")), r.PostFormValue("name")
	if !c.tied(r) {
		c.signInForm(w, v, http.StatusForbidden, signingIn{Next: next, Wrong: "This form was not made for this browser. Try again; cookies have to be allowed."})
		return
	}
	name = name[:min(len(name), 129)] // longer than any that exists: what is remembered stays small
	// By address first: one that has used up its tries cannot use up those of a name.
	keys := []string{"peer\x00" + peerName(r), "name\x00" + name}
	for i, l := range []*limiter{&c.peers, &c.names} {
		if ok, wait := l.take(keys[i]); !ok {
			seconds := int(math.Ceil(wait.Seconds()))
			w.Header().Set("Retry-After", strconv.Itoa(seconds))
			c.signInForm(w, v, http.StatusTooManyRequests, signingIn{Next: next, Wrong: "Too many attempts. Try again in " + strconv.Itoa(seconds) + " seconds."})
			return
		}
	}
	u, err := c.check(r, name, r.PostFormValue("password"))
	secret := ""
	if err == nil {
		secret = c.sessions.begin(u.Identity)
		if !slices.Contains(*c.users.Load(), u) { // taken away since it was checked
			c.sessions.end(secret)
			err = errWrong
		}
	}
	if err != nil {
		c.o.Logger.Warn("console: a sign-in failed", "peer", peerName(r))
		c.signInForm(w, v, http.StatusUnauthorized, signingIn{Next: next, Wrong: "Name or password is wrong."})
		return
	}
	c.peers.giveBack(keys[0])
	c.names.giveBack(keys[1])
	c.enter(w, v, secret, next)
}

// enter goes on with a new session, under a secret that nobody has seen before.
func (c *Console) enter(w http.ResponseWriter, v *visit, secret, next string) {
	if v.secret != "" {
		c.sessions.end(v.secret)
	}
	c.setCookie(w, v, sessionCookie, secret)
	c.setCookie(w, v, formCookie, "")
	http.Redirect(w, v.r, v.base+next, http.StatusSeeOther)
}

// SetUsers replaces [Options].Users. Who is no longer there, or there with another
// role or password, is signed out at once. Errors: consign.ErrInvalid with everything
// that is wrong; the users then stay as they are.
func (c *Console) SetUsers(users []User) error {
	var fs faults
	if fs.users(users); len(fs) > 0 {
		return &consign.Error{Op: "set users", Faults: fs, Err: consign.ErrInvalid}
	}
	users = slices.Clone(users)
	for _, u := range *c.users.Swap(&users) {
		if !slices.Contains(users, u) {
			c.sessions.endOf(u.Identity)
		}
	}
	return nil
}

var errWrong = errors.New("name or password is wrong")

// nobody has no password that fits. It takes as long as somebody.
var nobody = hashed{rounds: hashRounds, salt: make([]byte, 16), key: make([]byte, 32)}

// check takes the same time for a name that does not exist, and hashes only a few
// passwords at once.
func (c *Console) check(r *http.Request, name, password string) (User, error) {
	select {
	case c.hashing <- struct{}{}:
		defer func() { <-c.hashing }()
	case <-r.Context().Done():
		return User{}, r.Context().Err()
	}
	for _, u := range *c.users.Load() {
		if u.Name != name {
			continue
		}
		h, err := readHash(u.Password)
		if err != nil || !h.fits(password) {
			return User{}, errWrong
		}
		return u, nil
	}
	nobody.fits(password)
	return User{}, errWrong
}

func peerName(r *http.Request) string {
	if peer, ok := peerOf(r); ok {
		return peer.String()
	}
	return "local"
}

// linkPage asks before it uses the link up: programs that look at links in messages
// must not.
func (c *Console) linkPage(w http.ResponseWriter, r *http.Request) {
	c.signInForm(w, visitOf(r), http.StatusOK, signingIn{Next: "/", Link: r.URL.Query().Get("token")})
}

func (c *Console) followLink(w http.ResponseWriter, r *http.Request) {
	v := visitOf(r)
	if !c.tied(r) {
		c.signInForm(w, v, http.StatusForbidden, signingIn{Next: "/", Link: r.PostFormValue("link"), Wrong: "This form was not made for this browser. Try again; cookies have to be allowed."})
		return
	}
	who, ok := c.links.follow(r.PostFormValue("link"))
	if !ok {
		c.signInForm(w, v, http.StatusUnauthorized, signingIn{Next: "/", Wrong: "This link was used already, is too old, or was replaced by a newer one."})
		return
	}
	c.enter(w, v, c.sessions.begin(who), "/")
}

func (c *Console) signOut(w http.ResponseWriter, r *http.Request) {
	v := visitOf(r)
	if v.in && !c.ownForm(r, v) {
		c.render(w, v, reply{status: http.StatusForbidden, page: "message", title: "Refused", data: message{"This form is not one of yours.", "", "/", "Overview"}})
		return
	}
	c.sessions.end(v.secret)
	c.setCookie(w, v, sessionCookie, "")
	http.Redirect(w, r, v.base+"/sign-in", http.StatusSeeOther)
}
