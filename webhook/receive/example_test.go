package receive_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/webhook"
	"github.com/consign-go/consign/webhook/receive"
)

// Both ends on one secret: the second attempt has the same delivery key, and the
// receiver answers it without executing anything again.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "receive")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "desk.db"))
	if err != nil {
		panic(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, `CREATE TABLE notice (body TEXT)`); err != nil {
		panic(err)
	}
	secret, err := webhook.ParseKey("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		panic(err)
	}

	store := receive.SQLite(db, "")
	if err := store.Create(ctx); err != nil {
		panic(err)
	}
	receiver, err := receive.New(store, receive.Options{Keys: []receive.Key{secret}, Proofs: []receive.Key{secret}})
	if err != nil {
		panic(err)
	}
	server := httptest.NewServer(receiver.Handler(func(ctx context.Context, tx *sql.Tx, d receive.Delivery) (receive.Response, error) {
		_, err := tx.ExecContext(ctx, `INSERT INTO notice VALUES (?)`, d.Body)
		return receive.Response{}, err
	}))
	defer server.Close()

	endpoint, err := webhook.New(webhook.Options{
		URL: server.URL, Idempotent: true, Credentials: webhook.Credentials{Keys: []webhook.Key{secret}, Proofs: []webhook.Key{secret}},
		// Only because this receiver is on the same machine:
		Plaintext: true, Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")},
		Ports: []uint16{netip.MustParseAddrPort(server.Listener.Addr().String()).Port()},
	})
	if err != nil {
		panic(err)
	}
	crm := endpoint.Channel("crm") // goes into consign.Options; Serve calls it like this
	for number := 1; number <= 2; number++ {
		err := crm.Deliver(ctx, consign.Message{}, consign.Attempt{
			Key: "0198f000-0000-7000-8000-000000000001", Request: []byte(`{"ticket":41}`), Number: number,
		})
		fmt.Println("attempt", number, "error:", err)
	}
	var notices int
	if err := db.QueryRowContext(ctx, `SELECT count(*) FROM notice`).Scan(&notices); err != nil {
		panic(err)
	}
	fmt.Println("executed:", notices)
	// Output:
	// attempt 1 error: <nil>
	// attempt 2 error: <nil>
	// executed: 1
}

// With a pgx pool the function gets a pgx.Tx; the types are inferred.
func ExamplePgx() {
	serve := func(pool *pgxpool.Pool, secret receive.Key) error {
		receiver, err := receive.New(receive.Pgx(pool, ""), receive.Options{Keys: []receive.Key{secret}, Proofs: []receive.Key{secret}})
		if err != nil {
			return err
		}
		_ = receiver.Handler(func(ctx context.Context, tx pgx.Tx, d receive.Delivery) (receive.Response, error) {
			_, err := tx.Exec(ctx, `INSERT INTO ticket_notice (body) VALUES ($1)`, d.Body)
			return receive.Response{}, err
		})
		return nil
	}
	_ = serve
}
