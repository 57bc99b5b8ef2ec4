//go:build unix

package pgtest

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// A standby has what its primary has committed, only reads, and writes once it is
// promoted; the primary stays down when it is stopped, and up when it is started.
func TestServerAloneStopsStartsAndIsFollowed(t *testing.T) {
	primary := Alone(t, Options{Settings: map[string]string{"synchronous_standby_names": "*"}})
	standby := Alone(t, Options{Follows: primary, Settings: map[string]string{"synchronous_standby_names": ""}})
	if err := primary.Exec(t.Context(), "CREATE TABLE kept AS SELECT 1 AS n"); err != nil {
		t.Fatal(err)
	}
	if err := standby.Exec(t.Context(), "CREATE TABLE other AS SELECT 1 AS n"); err == nil {
		t.Fatal("a standby writes")
	}
	primary.Stop(t, Kill)
	if _, err := pgx.Connect(t.Context(), primary.URL()); err == nil {
		t.Fatal("a server that was stopped answers")
	}
	if err := standby.Exec(t.Context(), "SELECT pg_promote()"); err != nil {
		t.Fatal(err)
	}
	if err := standby.Exec(t.Context(), "INSERT INTO kept VALUES (2)"); err != nil {
		t.Fatal(err)
	}
	primary.Start(t)
	if err := primary.Exec(t.Context(), "SELECT n FROM kept"); err != nil {
		t.Fatal(err)
	}
}

// The death of one backend ends every session, and the server comes back by itself.
func TestKilledBackendEndsEverySession(t *testing.T) {
	conn, err := pgx.Connect(t.Context(), URL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	KillBackend(t)
	for end := time.Now().Add(answerWait); conn.Ping(t.Context()) == nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the session lives on")
		}
	}
	for end := time.Now().Add(answerWait); ; time.Sleep(10 * time.Millisecond) {
		again, err := pgx.Connect(t.Context(), URL(t))
		if err == nil {
			again.Close(t.Context())
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}
