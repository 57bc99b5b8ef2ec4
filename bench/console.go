package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/consign-go/consign/console"
	"github.com/consign-go/consign/postgres"
)

// consolePages are the pages of P14; {unknown} and {done} stand for intents whose
// outcome is unknown, and that were delivered.
var consolePages = []string{
	"/", "/live", "/review", "/review/all", "/kinds", "/audit", "/audit?ref={done}", "/approvals",
	"/intents", "/intents?status=delivered", "/intents?status=failed", "/intents?status=pending", "/intents?kind=kind3",
	"/intents?profile=work&kind=kind3&status=cancelled", "/intents?code=POISONED", "/intents?code=OUTCOME_UNKNOWN",
	"/intents?subject=subject+77", "/intents?age=older-7d", "/intents?age=older-7d&status=delivered",
	"/intents?age=1h&code=REJECTED", "/intents?kind=nothing", "/intents/{unknown}", "/intents/{done}",
}

// visitor is somebody who is signed in, with a browser that takes no pictures.
type visitor struct {
	client *http.Client
	base   string
}

// get returns a page, and how long it took from the request to the last byte.
func (v *visitor) get(ctx context.Context, page string) (body string, took time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, v.base+page, nil)
	if err != nil {
		return "", 0, err
	}
	return v.do(req, req.URL.Path)
}

// do returns the page at which a request must have ended up.
func (v *visitor) do(req *http.Request, at string) (body string, took time.Duration, err error) {
	began := time.Now()
	resp, err := v.client.Do(req)
	if err != nil {
		return "", 0, err
	}
	raw, err := io.ReadAll(resp.Body)
	took = time.Since(began)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return "", 0, err
	}
	if resp.StatusCode != http.StatusOK || resp.Request.URL.Path != at {
		return "", 0, fmt.Errorf("%s answers %s and leads to %s, want %s", req.URL.Path, resp.Status, resp.Request.URL.Path, at)
	}
	return string(raw), took, nil
}

var formToken = regexp.MustCompile(`name="token" value="([^"]+)"`)

// signIn signs in as people do.
func (v *visitor) signIn(ctx context.Context, name, password string) error {
	form, _, err := v.get(ctx, "/sign-in")
	if err != nil {
		return err
	}
	token := formToken.FindStringSubmatch(form)
	if token == nil {
		return errors.New("the sign-in page has no form")
	}
	values := url.Values{"token": {token[1]}, "name": {name}, "password": {password}, "next": {"/"}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, v.base+"/sign-in", strings.NewReader(values.Encode()))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	_, _, err = v.do(req, "/")
	return err
}

// pages runs P14: the console on a large database, one in fifty of whose deliveries
// are open, each page in turn. Counts that visitors share are taken anew for each.
func (s *Suite) pages(ctx context.Context, add func(Sample)) error {
	aged, err := s.agedSuite(ctx)
	if err != nil {
		return err
	}
	return aged.inPool(ctx, func(pool *pgxpool.Pool) (err error) {
		if err := aged.age(ctx, pool, s.Config.Old, max(1, s.Config.Old/50), true); err != nil {
			return err
		}
		const name, password = "ann", "as long as it has to be"
		site, err := serveConsole(pool, name, password)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, site.close()) }()
		v := &visitor{base: "http://" + site.listener.Addr().String()}
		jar, err := cookiejar.New(nil)
		if err != nil {
			return err
		}
		v.client = &http.Client{Jar: jar, Transport: &http.Transport{}}
		defer v.client.CloseIdleConnections()
		if err := v.signIn(ctx, name, password); err != nil {
			return err
		}
		var unknown, done string
		err = pool.QueryRow(ctx, `SELECT (SELECT ref::text FROM consign.delivery WHERE uncertain AND review_at IS NOT NULL LIMIT 1),
			(SELECT ref::text FROM consign.delivery WHERE terminal = 3 AND profile = 2 LIMIT 1)`).Scan(&unknown, &done)
		if err != nil {
			return err
		}
		refs := strings.NewReplacer("{unknown}", unknown, "{done}", done)
		for _, page := range consolePages {
			sample, err := v.visits(ctx, Console+" "+page, refs.Replace(page), s.Config.Visits)
			if err != nil {
				return err
			}
			add(sample)
		}
		return nil
	})
}

// visits asks for one page again and again.
func (v *visitor) visits(ctx context.Context, name, page string, n int) (Sample, error) {
	out := Sample{Subject: name, N: n}
	took := make([]time.Duration, n)
	_, first, err := v.get(ctx, page)
	for i := range took {
		if err != nil {
			return out, err
		}
		_, took[i], err = v.get(ctx, page)
	}
	out.First, out.Latency = float64(first.Nanoseconds())/1e6, newDistribution(took)
	return out, err
}

// site is a console that is served.
type site struct {
	listener net.Listener
	server   *http.Server
	ended    chan error
}

func serveConsole(pool *pgxpool.Pool, name, password string) (*site, error) {
	store, err := postgres.New(pool, nil)
	if err != nil {
		return nil, err
	}
	hash, err := console.HashPassword(password)
	if err != nil {
		return nil, err
	}
	c, err := console.New(store, &console.Options{
		Users:   []console.User{{Identity: console.Identity{Name: name, Role: console.Admin}, Password: hash}},
		Refresh: time.Nanosecond,
		Logger:  slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &site{listener, &http.Server{Handler: c}, make(chan error, 1)}
	go func() { s.ended <- s.server.Serve(listener) }()
	return s, nil
}

func (s *site) close() error {
	err := s.server.Close()
	if ended := <-s.ended; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}
