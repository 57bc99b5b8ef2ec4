package console

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net/http"
	"sync"
	"time"
)

// sessions are who is signed in to this process. Of a session's secret only the
// hash is kept, in memory: a restart signs everybody out.
type sessions struct {
	idle, absolute time.Duration
	now            func() time.Time

	mu   sync.Mutex
	open map[[32]byte]*session
}

type session struct {
	who         Identity
	began, seen time.Time
}

const mostSessions = 10_000

// begin opens a session and returns its secret.
func (s *sessions) begin(who Identity) string {
	secret := fresh()
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open) >= mostSessions {
		s.makeRoom(now)
	}
	s.open[sha256.Sum256([]byte(secret))] = &session{who, now, now}
	return secret
}

// find returns who a secret belongs to. Each look keeps the session from being idle,
// unless it is one that the page makes by itself.
func (s *sessions) find(secret string, byItself bool) (Identity, bool) {
	key := sha256.Sum256([]byte(secret))
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.open[key]
	if found == nil {
		return Identity{}, false
	}
	if s.over(found, now) {
		delete(s.open, key)
		return Identity{}, false
	}
	if !byItself {
		found.seen = now
	}
	return found.who, true
}

func (s *sessions) end(secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, sha256.Sum256([]byte(secret)))
}

// endOf ends every session of somebody.
func (s *sessions) endOf(who Identity) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, one := range s.open {
		if one.who == who {
			delete(s.open, key)
		}
	}
}

func (s *sessions) over(one *session, now time.Time) bool {
	return now.Sub(one.seen) >= s.idle || now.Sub(one.began) >= s.absolute
}

// makeRoom removes what is over, or else what was idle for longest.
func (s *sessions) makeRoom(now time.Time) {
	var idlest *session
	var key [32]byte
	for k, one := range s.open {
		if s.over(one, now) {
			delete(s.open, k)
		} else if idlest == nil || one.seen.Before(idlest.seen) {
			idlest, key = one, k
		}
	}
	if len(s.open) >= mostSessions {
		delete(s.open, key)
	}
}

// fresh is a secret that nobody can guess.
func fresh() string {
	b := make([]byte, 32)
	rand.Read(b)
	return base64.RawURLEncoding.EncodeToString(b)
}

// The cookies. The prefix makes browsers refuse one that another host has set
// (RFC 6265bis, section 4.1.3).
const (
	sessionCookie = "consign-session"
	formCookie    = "consign-form"
)

func (c *Console) cookieName(r *http.Request, name string) string {
	if c.secure(r) {
		return "__Secure-" + name
	}
	return name
}

func (c *Console) cookie(r *http.Request, name string) string {
	found, err := r.Cookie(c.cookieName(r, name))
	if err != nil {
		return ""
	}
	return found.Value
}

// setCookie sets one for as long as the browser runs; the server decides how long it
// is good for. An empty value removes it.
func (c *Console) setCookie(w http.ResponseWriter, v *visit, name, value string) {
	cookie := &http.Cookie{
		Name: c.cookieName(v.r, name), Value: value, Path: v.base + "/", HttpOnly: true, Secure: c.secure(v.r),
		SameSite: http.SameSiteLaxMode,
	}
	if value == "" {
		cookie.MaxAge = -1
	}
	http.SetCookie(w, cookie)
}

// secure reports whether browsers reach the console through TLS.
func (c *Console) secure(r *http.Request) bool { return r.TLS != nil || c.o.TLS }

// token is what a form of a visitor has to carry: nobody else can make it.
func (c *Console) token(holder string) string {
	m := hmac.New(sha256.New, c.key)
	m.Write([]byte("form\x00" + holder))
	return base64.RawURLEncoding.EncodeToString(m.Sum(nil))
}

func (c *Console) isToken(token, holder string) bool {
	return holder != "" && subtle.ConstantTimeCompare([]byte(token), []byte(c.token(holder))) == 1
}
