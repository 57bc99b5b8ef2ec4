package demo

import (
	"context"
	"database/sql"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"sync"
	"time"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/webhook"
	"github.com/consign-go/consign/webhook/receive"
)

// secret signs what goes to the CRM. A real one comes from the configuration.
const secret = "whsec_Y29uc2lnbi1kZW1vLWNvbnNpZ24tZGVtby1zZWNyZXQ="

// crm is the far side: a real HTTP server with a database of its own, which acts
// once for each delivery key and writes down what it did. Beside it is a gateway
// for text messages that keeps no keys, and hangs up when it has sent one.
type crm struct {
	db     *sql.DB
	server *http.Server
	url    string

	mu      sync.Mutex
	arrived []arrival
	holding chan struct{} // not nil: answers are held back, and each arrival is told here
}

// arrival is one request that reached the CRM.
type arrival struct{ key, body string }

func openCRM(ctx context.Context, dir string) (*crm, error) {
	db, err := openSQLite(filepath.Join(dir, "crm.db"))
	if err != nil {
		return nil, err
	}
	c := &crm{db: db}
	if err := c.listen(ctx); err != nil {
		db.Close()
		return nil, err
	}
	return c, nil
}

func (c *crm) listen(ctx context.Context) error {
	if _, err := c.db.ExecContext(ctx, `CREATE TABLE done (key TEXT NOT NULL, what TEXT NOT NULL)`); err != nil {
		return err
	}
	store := receive.SQLite(c.db, "")
	if err := store.Create(ctx); err != nil {
		return err
	}
	key, err := webhook.ParseKey(secret)
	if err != nil {
		return err
	}
	receiver, err := receive.New(store, receive.Options{Keys: []receive.Key{key}})
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/hooks/tickets", c.watched(receiver.Handler(c.act)))
	mux.HandleFunc("/sms", c.sms)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	c.server, c.url = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}, "http://"+listener.Addr().String()
	go c.server.Serve(listener)
	return nil
}

func (c *crm) close() {
	c.server.Close()
	c.db.Close()
}

// act is what the CRM does about a delivery, in the transaction that also keeps its
// key.
func (c *crm) act(ctx context.Context, tx *sql.Tx, d receive.Delivery) (receive.Response, error) {
	_, err := tx.ExecContext(ctx, `INSERT INTO done VALUES (?, ?)`, d.Key, string(d.Body))
	return receive.Response{Status: http.StatusNoContent}, err
}

// watched notes each request, and holds the answer back for as long as that is asked
// for and its sender lives.
func (c *crm) watched(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := httptest.NewRecorder()
		body := &keeping{ReadCloser: r.Body}
		r.Body = body
		next.ServeHTTP(answer, r)
		c.mu.Lock()
		c.arrived = append(c.arrived, arrival{r.Header.Get("Webhook-Id"), string(body.read)})
		holding := c.holding
		c.mu.Unlock()
		if holding != nil {
			holding <- struct{}{}
			<-r.Context().Done()
			return
		}
		for name, values := range answer.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(answer.Code)
		w.Write(answer.Body.Bytes())
	})
}

// keeping is a body that keeps what was read of it.
type keeping struct {
	io.ReadCloser
	read []byte
}

func (k *keeping) Read(p []byte) (int, error) {
	n, err := k.ReadCloser.Read(p)
	k.read = append(k.read, p[:n]...)
	return n, err
}

// sms sends the text and hangs up without an answer.
func (c *crm) sms(w http.ResponseWriter, r *http.Request) {
	c.db.ExecContext(r.Context(), `INSERT INTO done VALUES (?, 'sms')`, r.Header.Get("Webhook-Id"))
	if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
		conn.Close()
	}
}

// did counts what the far side has done under a key.
func (c *crm) did(ctx context.Context, key string) (n int, err error) {
	err = c.db.QueryRowContext(ctx, `SELECT count(*) FROM done WHERE key = ?`, key).Scan(&n)
	return n, err
}

// got is what has reached the CRM so far.
func (c *crm) got() []arrival {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.arrived[:len(c.arrived):len(c.arrived)]
}

// hold makes the CRM act and keep its answer to itself, until release is called.
func (c *crm) hold() (acted <-chan struct{}, release func()) {
	holding := make(chan struct{}, 1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holding = holding
	return holding, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.holding = nil
	}
}

// endpoints are the desk's ways to the far side: the CRM drops a repeated key, the
// gateway for text messages does not.
func endpoints(base string) (crm, sms *webhook.Endpoint, err error) {
	key, err := webhook.ParseKey(secret)
	if err != nil {
		return nil, nil, err
	}
	at, err := netip.ParseAddrPort(base[len("http://"):])
	if err != nil {
		return nil, nil, err
	}
	o := webhook.Options{ // the far side is on this very machine
		URL: base + "/hooks/tickets", Plaintext: true, Ports: []uint16{at.Port()}, Allow: []netip.Prefix{netip.PrefixFrom(at.Addr(), 32)},
		Credentials: webhook.Credentials{Keys: []webhook.Key{key}}, Idempotent: true,
	}
	if crm, err = webhook.New(o); err != nil {
		return nil, nil, err
	}
	o.URL, o.Idempotent = base+"/sms", false
	sms, err = webhook.New(o)
	return crm, sms, err
}

// channels are the contracts of both.
func channels(crm, sms *webhook.Endpoint) []consign.Channel {
	return []consign.Channel{crm.Channel("crm"), sms.Channel("sms")}
}
