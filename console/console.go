package console

import (
	"context"
	"errors"
	"html/template"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/approval"
	"github.com/consign-go/consign/operator"
)

// Console is the web console of one database. It is safe for concurrent use, runs
// nothing by itself and asks the database only when somebody looks.
type Console struct {
	o         Options
	operator  *operator.Operator
	approvals approvals
	mux       *http.ServeMux
	foreign   *http.CrossOriginProtection
	key       []byte
	users     atomic.Pointer[[]User]
	sessions  sessions
	links     links
	names     limiter // failed sign-ins by name
	peers     limiter // and by address
	hashing   chan struct{}
	shared    shared
	pages     map[string]*template.Template
}

// approvals is approval.Approvals with its transaction type hidden.
type approvals interface {
	Open(ctx context.Context, q approval.Query) ([]approval.Approval, approval.Cursor, error)
	Find(ctx context.Context, id consign.ID) (approval.Approval, error)
	Confirm(ctx context.Context, d approval.Decision) (approval.Approval, error)
	Dismiss(ctx context.Context, d approval.Decision) (approval.Approval, error)
}

// New returns the console of store. It does no IO. Errors: consign.ErrInvalid with
// everything that is wrong with the options.
func New[TX any](store consign.Store[TX], o *Options) (*Console, error) {
	c := &Console{}
	if o != nil {
		c.o = *o
	}
	if fs := c.o.check(); len(fs) > 0 {
		return nil, &consign.Error{Op: "console", Faults: fs, Err: consign.ErrInvalid}
	}
	c.o.fill()
	var err error
	if c.operator, err = operator.New(store); err != nil {
		return nil, err
	}
	if c.approvals, err = approval.New(store); err != nil {
		return nil, err
	}
	c.users.Store(new(slices.Clone(c.o.Users)))
	c.key = c.o.Key
	c.sessions = sessions{idle: c.o.Idle, absolute: c.o.Absolute, now: c.o.now, open: map[[32]byte]*session{}}
	c.links = links{now: c.o.now, open: map[[32]byte]link{}}
	c.names = limiter{most: 10, window: 5 * time.Minute, now: c.o.now, counts: map[string]*failures{}}
	c.peers = limiter{most: 30, window: 5 * time.Minute, now: c.o.now, counts: map[string]*failures{}}
	c.hashing = make(chan struct{}, 2)
	c.foreign = http.NewCrossOriginProtection()
	if c.pages, err = c.parse(); err != nil {
		return nil, err
	}
	c.routes()
	return c, nil
}

// visit is one request with what is known about it.
type visit struct {
	r      *http.Request
	base   string // path of the console as the browser sees it, without a slash at the end
	path   string // below base
	who    Identity
	in     bool   // somebody is signed in
	secret string // of the session; empty: there is none
	holder string // whom tokens of forms belong to
	may    func(p Permission) bool
}

// reply is what a page answers.
type reply struct {
	status int    // 0: 200
	to     string // path below base to go on at, instead of a page
	page   string // the template
	title  string
	data   any
	notice *notice
}

// notice is what became of an action.
type notice struct {
	Kind string // "done", "refused"
	Text string
	More []string
	Link string // path below base
	Name string // of the link
}

type page func(ctx context.Context, v *visit) (reply, error)

// routes registers every page and action with what it needs.
func (c *Console) routes() {
	c.mux = http.NewServeMux()
	for _, r := range []struct {
		pattern string
		needs   Permission
		page    page
	}{
		{"GET /{$}", Look, c.overview},
		{"GET /intents", Look, c.intents},
		{"GET /intents/{ref}", Look, c.intent},
		{"POST /intents/{ref}/resolve", Resolve, c.resolve},
		{"POST /intents/{ref}/accept", Resolve, c.accept},
		{"POST /intents/{ref}/prove", Resolve, c.prove},
		{"POST /intents/{ref}/redeliver", Resend, c.redeliver},
		{"POST /intents/{ref}/reissue", Resend, c.reissue},
		{"POST /intents/{ref}/cancel", Cancel, c.cancel},
		{"POST /intents/{ref}/content", Content, c.content},
		{"GET /review", Look, c.review},
		{"GET /review/all", Look, c.reviewAll},
		{"POST /bulk/preview", Bulk, c.preview},
		{"POST /bulk/confirm", Bulk, c.confirm},
		{"GET /kinds", Look, c.kinds},
		{"POST /kinds/pause", Pause, c.pause},
		{"POST /kinds/resume", Pause, c.resume},
		{"GET /audit", Look, c.audit},
		{"GET /approvals", Look, c.openApprovals},
		{"GET /approvals/{id}", Look, c.approval},
		{"POST /approvals/{id}/input", Decide, c.approvalInput},
		{"POST /approvals/{id}/confirm", Decide, c.confirmApproval},
		{"POST /approvals/{id}/dismiss", Decide, c.dismissApproval},
	} {
		c.mux.Handle(r.pattern, c.guarded(r.needs, r.page))
	}
	c.mux.HandleFunc("GET /live", c.live)
	c.mux.HandleFunc("GET /assets/{name}", asset)
	c.mux.HandleFunc("GET /sign-in", c.signInPage)
	c.mux.HandleFunc("POST /sign-in", c.signIn)
	c.mux.HandleFunc("GET /link", c.linkPage)
	c.mux.HandleFunc("POST /link", c.followLink)
	c.mux.HandleFunc("POST /sign-out", c.signOut)
	c.mux.HandleFunc("/", c.nowhere)
}

type visitKey struct{}

func visitOf(r *http.Request) *visit { return r.Context().Value(visitKey{}).(*visit) }

// ServeHTTP answers one request.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	headers(w.Header())
	if !c.admitted(r) {
		http.Error(w, "The console is not open to where this came from. See Options.Networks and Options.Hosts.", http.StatusForbidden)
		return
	}
	v := &visit{r: r}
	v.base, v.path = c.split(r)
	if v.path == "" && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		http.Redirect(w, r, v.base+"/", http.StatusPermanentRedirect)
		return
	}
	if v.path != path.Clean(v.path) {
		http.NotFound(w, r)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	c.identify(v)
	inner := r.Clone(context.WithValue(r.Context(), visitKey{}, v))
	inner.URL.Path, inner.URL.RawPath = v.path, ""
	v.r = inner
	c.mux.ServeHTTP(w, inner)
}

// maxForm is the largest form: a bulk action on 200 intents with a long reason.
const maxForm = 64 << 10

// split returns where the console is mounted, as browsers see it, and the path below
// that.
func (c *Console) split(r *http.Request) (base, below string) {
	if c.o.Path != "" {
		if rest, ok := strings.CutPrefix(r.URL.Path, c.o.Path); ok && (rest == "" || rest[0] == '/') {
			return c.o.Path, rest
		}
		return c.o.Path, r.URL.Path
	}
	asked, _, _ := strings.Cut(r.RequestURI, "?")
	base, ok := strings.CutSuffix(asked, r.URL.EscapedPath())
	if !ok || base != "" && !isBase(base) {
		base = ""
	}
	return base, r.URL.Path
}

// identify finds out who is there: from the program, the proxy or the session.
func (c *Console) identify(v *visit) {
	v.may = func(Permission) bool { return false }
	switch {
	case c.known(v):
		v.holder = "name\x00" + v.who.Name
	default:
		v.secret = c.cookie(v.r, sessionCookie)
		v.who, v.in = c.sessions.find(v.secret, v.path == "/live")
		v.holder = "session\x00" + v.secret
	}
	if v.in {
		v.may = func(p Permission) bool {
			least, ok := c.o.Permissions[p]
			if !ok {
				least = usual[p]
			}
			return v.who.Role.reaches(least) && (c.o.May == nil || c.o.May(v.r.Context(), v.who, p))
		}
	}
}

func (c *Console) known(v *visit) bool {
	if c.o.Host != nil {
		if v.who, v.in = c.o.Host(v.r); v.in {
			v.in = isName(v.who.Name)
			return v.in
		}
	}
	if c.o.Proxy != nil {
		v.who, v.in = c.o.Proxy.identify(v.r)
	}
	return v.in
}

// guarded is a page for those who have a permission.
func (c *Console) guarded(needs Permission, p page) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := visitOf(r)
		safe := r.Method == http.MethodGet || r.Method == http.MethodHead
		switch {
		case !v.in && safe:
			http.Redirect(w, r, v.base+"/sign-in?next="+query(below(r)), http.StatusSeeOther)
			return
		case !v.in:
			c.render(w, v, reply{status: http.StatusUnauthorized, page: "message", title: "Signed out", data: message{
				"Your session has ended, so nothing was done.", "Sign in, look again, then decide again.", "/sign-in", "Sign in",
			}})
			return
		case !safe && errors.As(r.ParseForm(), new(*http.MaxBytesError)):
			c.render(w, v, reply{status: http.StatusRequestEntityTooLarge, page: "message", title: "It did not work", data: message{
				"The form is too large, so nothing was done.", "", "", "",
			}})
			return
		case !safe && !c.ownForm(r, v):
			c.render(w, v, reply{status: http.StatusForbidden, page: "message", title: "Refused", data: message{
				"This form is not one of yours, so nothing was done.", "Open the page anew and send it from there.", "/", "Overview",
			}})
			return
		case !v.may(Look) || !v.may(needs):
			c.render(w, v, reply{status: http.StatusForbidden, page: "message", title: "Not permitted", data: message{
				"Your role does not allow this, so nothing was done.", "It needs the permission “" + string(needs) + "”.", "", "",
			}})
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), c.o.Timeout)
		defer cancel()
		answer, err := p(ctx, v)
		if err != nil {
			answer = c.failed(v, err)
		}
		if !safe {
			c.shared.forget()
		}
		if answer.to != "" {
			http.Redirect(w, r, v.base+answer.to, http.StatusSeeOther)
			return
		}
		c.render(w, v, answer)
	})
}

// ownForm reports whether a form was made by this console for this visitor and sent
// from its own pages.
func (c *Console) ownForm(r *http.Request, v *visit) bool {
	return c.foreign.Check(r) == nil && c.isToken(r.PostFormValue("token"), v.holder)
}

// failed is the page about an error that no page has told itself.
func (c *Console) failed(v *visit, err error) reply {
	var own *consign.Error
	out := reply{page: "message", title: "It did not work"}
	switch {
	case errors.Is(err, consign.ErrNotFound):
		out.status, out.title = http.StatusNotFound, "Not found"
		out.data = message{"There is nothing under this name.", "It may have been removed by retention or erased.", "/intents", "Intents"}
	case errors.As(err, &own) && errors.Is(err, consign.ErrInvalid):
		out.status = http.StatusUnprocessableEntity
		out.data = message{"Something that was asked for is not possible:", said(err), "", ""}
	case errors.Is(err, operator.ErrChanged), errors.Is(err, operator.ErrRefused):
		out.status = http.StatusConflict
		out.data = message{"Nothing was written.", said(err), "", ""}
	case errors.Is(err, context.DeadlineExceeded):
		out.status = http.StatusServiceUnavailable
		out.data = message{"The database did not answer in time.", "Whether an action was carried out is not known: look before you repeat it.", "", ""}
	default:
		out.status = http.StatusInternalServerError
		out.data = message{"Something went wrong on the server.", "Its log says what. Whether an action was carried out is not known: look before you repeat it.", "", ""}
	}
	if out.status >= 500 && !errors.Is(v.r.Context().Err(), context.Canceled) {
		c.o.Logger.Error("console: a page failed", "method", v.r.Method, "page", v.r.Pattern, "err", err)
	}
	return out
}

// said is the text of an error for people: what is wrong, without the operation.
func said(err error) string {
	var own *consign.Error
	if !errors.As(err, &own) {
		return err.Error()
	}
	if len(own.Faults) == 0 {
		return own.Err.Error()
	}
	texts := make([]string, len(own.Faults))
	for i, f := range own.Faults {
		texts[i] = f.Field + ": " + f.Rule
	}
	return strings.Join(texts, "; ")
}

func (c *Console) nowhere(w http.ResponseWriter, r *http.Request) {
	v := visitOf(r)
	c.render(w, v, reply{status: http.StatusNotFound, page: "message", title: "Not found", data: message{
		"There is no such page.", "", "/", "Overview",
	}})
}
