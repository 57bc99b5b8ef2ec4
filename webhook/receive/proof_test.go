package receive_test

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/internal/pgtest"
	"github.com/consign-go/consign/migrate"
	"github.com/consign-go/consign/operator"
	"github.com/consign-go/consign/postgres"
	"github.com/consign-go/consign/sqlite"
	"github.com/consign-go/consign/webhook"
	"github.com/consign-go/consign/webhook/receive"
)

// program is a sending program, whatever its database.
type program interface {
	outbox
	operator.Checker
	Visit(ctx context.Context, ref consign.Ref) (consign.Result, error)
}

// office is a sender that is driven by hand, with its operator and a receiver.
type office struct {
	*testing.T
	program
	people *operator.Operator
	desk   *desk
	way    *trouble
	exec   func(query string) // {s} is the prefix of the tables, {past} an hour ago
}

var ann = operator.By{Who: "ann", Why: "a receiver was asked"}

func furnish[TX any, S interface {
	consign.Store[TX]
	migrate.Store
}](f *office, store S, c consign.Channel) {
	f.Helper()
	_, failed := migrate.Up(f.Context(), store)
	ob, err := consign.New[TX](store, &consign.Options{Channels: []consign.Channel{c}})
	people, wrong := operator.New[TX](store)
	if err := errors.Join(failed, err, wrong); err != nil {
		f.Fatal(err)
	}
	f.program, f.people = ob, people
}

// offices runs a test with a sender on PostgreSQL and on SQLite, over a real socket.
func offices(t *testing.T, test func(f *office)) {
	for _, kind := range []string{"postgres", "sqlite"} {
		t.Run(kind, func(t *testing.T) {
			f := &office{T: t, desk: onSQLite(t), way: &trouble{}}
			f.way.to = f.desk.handler(receive.Options{Keys: []receive.Key{key("k")}, Proofs: []receive.Key{key("p")}},
				func(receive.Delivery) (receive.Response, error) { return receive.Response{Status: 204}, nil })
			srv := httptest.NewTLSServer(f.way)
			t.Cleanup(srv.Close)
			end, err := webhook.New(webhook.Options{
				URL: srv.URL + "/hook", Ports: []uint16{netip.MustParseAddrPort(srv.Listener.Addr().String()).Port()},
				Allow:       []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")},
				TLS:         &tls.Config{RootCAs: srv.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs},
				Credentials: webhook.Credentials{Keys: []webhook.Key{key("k")}, Proofs: []webhook.Key{key("x"), key("p")}},
			})
			if err != nil {
				t.Fatal(err)
			}
			f.open(kind, end.Channel("crm"))
			test(f)
		})
	}
}

func (f *office) open(kind string, c consign.Channel) {
	f.Helper()
	done := func(err error) {
		f.Helper()
		if err != nil {
			f.Fatal(err)
		}
	}
	if kind == "sqlite" {
		db := openSQLite(f.T, "sender.db")
		store, err := sqlite.New(db, nil)
		done(err)
		furnish(f, store, c)
		f.exec = func(query string) {
			past := "unixepoch() * 1000000 - 3600000000"
			_, err := db.ExecContext(f.Context(), strings.NewReplacer("{s}", "consign_", "{past}", past).Replace(query))
			done(err)
		}
		return
	}
	pool, schema := pgtest.Pool(f.T), pgtest.Schema(f.T)
	store, err := postgres.New(pool, &postgres.Options{Schema: schema})
	done(err)
	furnish(f, store, c)
	f.exec = func(query string) {
		_, err := pool.Exec(f.Context(), strings.NewReplacer("{s}", schema+".", "{past}", "now() - interval '1 hour'").Replace(query))
		done(err)
	}
}

func (f *office) enqueue(ticket int) consign.Ref {
	f.Helper()
	ref, err := f.EnqueueNow(f.Context(), consign.Message{Channel: "crm", Payload: map[string]any{"ticket": ticket}})
	if err != nil {
		f.Fatal(err)
	}
	return ref
}

func (f *office) show(ref consign.Ref) operator.Entry {
	f.Helper()
	e, err := f.people.Show(f.Context(), ref)
	if err != nil {
		f.Fatal(err)
	}
	return e
}

// An answer that carries a proof and comes when the lease is long over changes nothing
// about the record; its proof is kept, leads, and is accepted as what it is.
func TestProofThatComesTooLateIsKeptAndAccepted(t *testing.T) {
	offices(t, func(f *office) {
		reached, release := make(chan string), make(chan struct{})
		f.way.spoil.Store(spoiler(func(w http.ResponseWriter, r *http.Request, to http.Handler) {
			inner := httptest.NewRecorder()
			to.ServeHTTP(inner, r)
			reached <- inner.Header().Get("Consign-Proof")
			<-release
			w.Header().Set("Consign-Proof", "v1,c29tZWJvZHkgZWxzZQ== "+inner.Header().Get("Consign-Proof"))
			w.WriteHeader(http.StatusBadGateway)
		}))
		ref := f.enqueue(1)
		ended := make(chan error, 1)
		go func() { _, err := f.Visit(f.Context(), ref); ended <- err }()
		proof := <-reached
		f.exec("UPDATE {s}delivery SET lease_until = {past}")
		r, err := f.Visit(f.Context(), ref) // another look sweeps it
		if err != nil || r.Status != consign.StatusFailed || r.Code != consign.CodeOutcomeUnknown {
			f.Fatalf("swept: %+v, %v", r, err)
		}
		if e := f.show(ref); e.Answer != "" {
			f.Errorf("answered before the answer: %+v", e)
		}
		close(release)
		if err := <-ended; err != nil {
			f.Fatal(err)
		}
		page, err := f.people.Review(f.Context(), operator.ReviewFilter{})
		if err != nil || len(page.Entries) != 1 {
			f.Fatalf("%d in review, %v", len(page.Entries), err)
		}
		e := page.Entries[0]
		if e.Status != consign.StatusFailed || !e.Uncertain || !e.Proven || !e.Evidence[0].Late || e.Evidence[0].Proof != proof {
			f.Errorf("in review: %+v", e)
		}
		found, err := f.people.AcceptEvidence(f.Context(), ann, ref, consign.ID{})
		if err != nil || found.Source != "proof" || found.Outcome != operator.FoundDelivered || !strings.Contains(found.Evidence, proof) {
			f.Errorf("finding %+v, %v", found, err)
		}
		if e := f.show(ref); e.Status != consign.StatusFailed || !e.Uncertain || f.desk.executed() != 1 {
			f.Errorf("after: %+v, %d executed", e.Summary, f.desk.executed())
		}
	})
}

// A late answer without a proof, or with one of another key, body or receiver, proves
// nothing, and neither does it when a person hands it in.
func TestProofOfAnythingElseProvesNothing(t *testing.T) {
	offices(t, func(f *office) {
		signed, proofs := make(chan string, 1), []string{}
		f.way.spoil.Store(spoiler(func(w http.ResponseWriter, r *http.Request, to http.Handler) {
			inner := httptest.NewRecorder()
			to.ServeHTTP(inner, r)
			signed <- inner.Header().Get("Consign-Proof")
			panic(http.ErrAbortHandler)
		}))
		refs := []consign.Ref{f.enqueue(1), f.enqueue(2)}
		for _, ref := range refs {
			if r, err := f.Visit(f.Context(), ref); err != nil || r.Code != consign.CodeOutcomeUnknown {
				f.Fatalf("%+v, %v", r, err)
			}
			proofs = append(proofs, <-signed)
		}
		e := f.show(refs[0])
		signs := func(k string, digest [32]byte) string {
			v, err := receive.NewVerifier(receive.Options{Keys: []receive.Key{key("k")}, Proofs: []receive.Key{key(k)}})
			if err != nil {
				f.Fatal(err)
			}
			return v.Proof(receive.Delivery{Key: e.DeliveryKey.String(), Digest: digest})
		}
		for what, proof := range map[string]string{
			"of another delivery key": proofs[1], "of another body": signs("p", sha256.Sum256([]byte(`{"ticket":3}`))),
			"by another key": signs("k", e.Digest), "our own words": "delivered", "none": "v1,",
		} {
			_, err := f.people.AcceptProof(f.Context(), ann, refs[0], operator.Signed{Proof: proof}, f.program)
			if !errors.Is(err, operator.ErrRefused) || !strings.Contains(err.Error(), "signed by one of the receiver's keys") {
				f.Errorf("%s: %v", what, err)
			}
		}
		if e := f.show(refs[0]); len(e.Resolutions) != 0 || e.Answer != "" {
			f.Errorf("it left something: %+v", e)
		}
		found, err := f.people.AcceptProof(f.Context(), ann, refs[0], operator.Signed{Proof: proofs[0]}, f.program)
		if err != nil || found.Source != "proof" || !strings.HasSuffix(found.Evidence, proofs[0]) {
			f.Errorf("finding %+v, %v", found, err)
		}
		if e := f.show(refs[0]); e.Status != consign.StatusFailed || !e.Uncertain || e.Current == nil {
			f.Errorf("after: %+v", e)
		}
	})
}

// A proof that was there in time settles its attempt, and one beside a final no is kept
// for the person who looks into it.
func TestProofBesideAFinalNoIsKept(t *testing.T) {
	offices(t, func(f *office) {
		signed := make(chan string, 1)
		f.way.spoil.Store(spoiler(func(w http.ResponseWriter, r *http.Request, to http.Handler) {
			inner := httptest.NewRecorder()
			to.ServeHTTP(inner, r)
			signed <- inner.Header().Get("Consign-Proof")
			w.Header().Set("Consign-Proof", inner.Header().Get("Consign-Proof"))
			w.WriteHeader(http.StatusBadRequest)
		}))
		ref := f.enqueue(1)
		if r, err := f.Visit(f.Context(), ref); err != nil || r.Code != consign.CodeRejected {
			f.Fatalf("%+v, %v", r, err)
		}
		e, proof := f.show(ref), <-signed
		if !e.Proven || !e.Uncertain || e.ReviewAt.IsZero() || e.Known != operator.KnownNothing || e.Evidence[0].Proof != proof || e.Evidence[0].Late || e.Evidence[0].Outcome != "rejected" {
			f.Errorf("%+v", e)
		}
	})
}

// Where the endpoint knows no keys of its receiver's proofs, or cannot look them up, that
// is said.
func TestProofWithoutKeysIsNotTaken(t *testing.T) {
	lookup := errors.New("s3cr3t")
	for what, c := range map[string]struct {
		options webhook.Options
		says    string
	}{
		"no keys":         {webhook.Options{URL: "https://crm.example/", Credentials: webhook.Credentials{Keys: []webhook.Key{key("k")}}}, "no keys are known"},
		"none looked up":  {webhook.Options{Lookup: func(context.Context, string) (webhook.Credentials, error) { return webhook.Credentials{}, nil }}, "no keys are known"},
		"look-up fails":   {webhook.Options{Lookup: func(context.Context, string) (webhook.Credentials, error) { return webhook.Credentials{}, lookup }}, "could not be looked up"},
		"look-up crashes": {webhook.Options{Lookup: func(context.Context, string) (webhook.Credentials, error) { panic("s3cr3t") }}, "could not be looked up"},
	} {
		e, err := webhook.New(c.options)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		signed, err := e.Channel("crm").CheckProof(ctx, consign.Proof{To: "https://crm.example/", Key: "a", Text: "v1,x"})
		cancel()
		if signed != "" || err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%s: %q, %v", what, signed, err)
		}
	}
}
