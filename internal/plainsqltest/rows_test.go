//go:build !race

package plainsqltest

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/internal/driver"
)

func load(t *testing.T, b *base, ref consign.Ref) driver.Record {
	t.Helper()
	found, err := b.driver().Load(t.Context(), []driver.ID{driver.ID(ref.ID)})
	if err != nil || len(found) != 1 {
		t.Fatalf("%d records, %v", len(found), err)
	}
	found[0].State.DueIn, found[0].State.LeaseLeft, found[0].State.DeadlineLeft = 0, 0, 0 // they pass by themselves
	return found[0]
}

// content is a message in both forms.
func content(change func(m *consign.Message)) (consign.Message, row) {
	m := consign.Message{
		ID: consign.NewRef(), Channel: "crm", To: "desk é", Payload: map[string]any{"ticket": 41, "é": []any{1.5, nil}},
		Task: "turn 7", Index: 2, Subject: "session 9", NotBefore: time.Date(2041, 1, 2, 3, 4, 5, 6e6, time.UTC),
	}
	if change != nil {
		change(&m)
	}
	return m, row{
		contract: 1, channel: m.Channel, payload: ` {"é":[15e-1,null],"ticket":41}`, recipient: m.To, id: m.ID.String(), task: m.Task,
		index: m.Index, subject: m.Subject, notBefore: m.NotBefore.Format(time.RFC3339Nano),
	}
}

// TestRowsAreThoseOfTheGoCall: every column, but for the times of writing.
func TestRowsAreThoseOfTheGoCall(t *testing.T) {
	for name, change := range map[string]func(m *consign.Message){
		"full":                 nil,
		"plain":                func(m *consign.Message) { m.To, m.Task, m.Index, m.Subject = "", "", 0, "" },
		"index without a task": func(m *consign.Message) { m.Task = "" },
	} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, b *base) {
				m, r := content(change)
				if _, err := b.outbox(t, nil).EnqueueNow(t.Context(), m); err != nil {
					t.Fatal(err)
				}
				other := b.another(t)
				if err := other.try(t, r); err != nil {
					t.Fatal(err)
				}
				want, got := load(t, b, m.ID), load(t, other, m.ID)
				for _, at := range []*time.Time{&got.Intent.CreatedAt, &want.Intent.CreatedAt, &got.UpdatedAt, &want.UpdatedAt} {
					if at.IsZero() {
						t.Error("a time of writing is missing")
					}
					*at = time.Time{}
				}
				if !reflect.DeepEqual(got, want) {
					t.Errorf("by SQL\n%+v\nby Go\n%+v", got, want)
				}
			})
		})
	}
}

// TestRepeatedIDIsTheSameMessageOrAConflict: whichever language was first.
func TestRepeatedIDIsTheSameMessageOrAConflict(t *testing.T) {
	onBoth(t, func(t *testing.T, b *base) {
		ob := b.outbox(t, nil)
		m, r := content(nil)
		goFirst, goRow := content(nil)
		if _, err := ob.EnqueueNow(t.Context(), goFirst); err != nil {
			t.Fatal(err)
		}
		if err := b.try(t, goRow); err != nil {
			t.Errorf("the content that Go wrote: %v", err)
		}
		if err := b.try(t, r); err != nil {
			t.Fatal(err)
		}
		if _, err := ob.EnqueueNow(t.Context(), m); err != nil {
			t.Errorf("the content that SQL wrote, in Go: %v", err)
		}
		before := load(t, b, m.ID)
		later := r
		later.notBefore = nil // a wish about delivery, no content
		later.payload = `{"ticket":4.1e1 ,"\u00e9":[1.50,null]}`
		if err := b.try(t, later); err != nil {
			t.Errorf("the same content in another spelling: %v", err)
		}
		for what, change := range map[string]func(r *row){
			"channel":   func(r *row) { r.channel = "fax" },
			"recipient": func(r *row) { r.recipient = nil },
			"payload":   func(r *row) { r.payload = `{"ticket":42}` },
			"task":      func(r *row) { r.task = nil },
			"index":     func(r *row) { r.index = 3 },
			"subject":   func(r *row) { r.subject = "session 10" },
		} {
			other := r
			change(&other)
			if err := b.try(t, other); refusal(t, err) != "conflict" {
				t.Errorf("another %s: %v", what, err)
			}
		}
		if after := load(t, b, m.ID); !reflect.DeepEqual(after, before) {
			t.Errorf("the message was changed:\n%+v\n%+v", after, before)
		}
	})
}

// TestNothingIsEverReset: a repeated id leaves what was delivered as it is, and what
// was erased is never back.
func TestNothingIsEverReset(t *testing.T) {
	onBoth(t, func(t *testing.T, b *base) {
		sent := 0
		ob := b.outbox(t, deliverer(&sent))
		m, r := content(func(m *consign.Message) { m.NotBefore = time.Time{} })
		r.notBefore = nil
		if err := b.try(t, r); err != nil {
			t.Fatal(err)
		}
		if results, err := ob.Drain(t.Context(), 0); err != nil || len(results) != 1 || !results[0].Success() {
			t.Fatalf("%v, %v", results, err)
		}
		before := load(t, b, m.ID)
		if err := b.try(t, r); err != nil {
			t.Error(err)
		}
		if !b.answers { // the caller's way of resolving conflicts reaches what triggers write
			for _, or := range []string{"REPLACE", "IGNORE", "FAIL", "ROLLBACK"} {
				call := strings.Replace(b.call, "INSERT", "INSERT OR "+or, 1)
				if _, err := b.db.ExecContext(t.Context(), b.names.Replace(call), r.args()...); err != nil {
					t.Errorf("or %s: %v", or, err)
				}
				other := r
				other.subject = "another"
				if _, err := b.db.ExecContext(t.Context(), b.names.Replace(call), other.args()...); refusal(t, err) != "conflict" {
					t.Errorf("other content or %s: %v", or, err)
				}
			}
		}
		if after := load(t, b, m.ID); !reflect.DeepEqual(after, before) || sent != 1 {
			t.Errorf("sent %d times:\n%+v\n%+v", sent, after, before)
		}
		if n, err := b.driver().Erase(t.Context(), []string{m.Subject}); err != nil || n != 1 {
			t.Fatalf("erased %d, %v", n, err)
		}
		if err := b.try(t, r); refusal(t, err) != "conflict" {
			t.Errorf("an erased id: %v", err)
		}
		if n := one[int](t, b, "SELECT count(*) FROM {s}intent"); n != 0 {
			t.Errorf("%d intents after the erasure", n)
		}
	})
}

// TestEnqueuedRowIsDeliveredUnderTheChannelsContract: the contract columns are empty
// until the program that knows the channel claims the message.
func TestEnqueuedRowIsDeliveredUnderTheChannelsContract(t *testing.T) {
	onBoth(t, func(t *testing.T, b *base) {
		id := newID()
		if err := b.try(t, note(func(r *row) { r.id = id })); err != nil {
			t.Fatal(err)
		}
		const empty = `SELECT count(*) FROM {s}delivery WHERE retry = 0 AND lease_ms IS NULL AND timeout_ms IS NULL AND max_attempts IS NULL
			AND max_age_ms IS NULL AND deadline IS NULL AND owner IS NULL AND route = 'm:crm'`
		if one[int](t, b, empty) != 1 {
			t.Error("there is a contract before anybody claimed")
		}
		sent := 0
		if results, err := b.outbox(t, deliverer(&sent)).Drain(t.Context(), 0); err != nil || len(results) != 1 || !results[0].Success() || sent != 1 {
			t.Fatalf("%v, %v, sent %d", results, err, sent)
		}
		const filled = `SELECT count(*) FROM {s}delivery WHERE retry = 2 AND lease_ms = 60000 AND max_attempts = 5 AND deadline IS NOT NULL`
		if one[int](t, b, filled) != 1 {
			t.Error("the channel's contract was not copied at the claim")
		}
	})
}

// TestFreshRefsAreUUIDv7 that rise with time, and differ.
func TestFreshRefsAreUUIDv7(t *testing.T) {
	onBoth(t, func(t *testing.T, b *base) {
		before := time.Now().UnixMilli()
		for range 5 {
			if err := b.try(t, note()); err != nil {
				t.Fatal(err)
			}
		}
		after := time.Now().UnixMilli()
		text := "ref"
		if b.answers {
			text = "uuid_send(ref)"
		}
		rows, err := b.db.QueryContext(t.Context(), b.names.Replace("SELECT "+text+" FROM {s}intent WHERE delivery_key IS NULL"))
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		seen := map[string]bool{}
		for rows.Next() {
			var id []byte
			if err := rows.Scan(&id); err != nil {
				t.Fatal(err)
			}
			var ms int64
			for _, c := range id[:6] {
				ms = ms<<8 | int64(c)
			}
			if id[6]>>4 != 7 || id[8]>>6 != 2 || ms < before || ms > after {
				t.Errorf("%x is no UUIDv7 of now", id)
			}
			seen[string(id)] = true
		}
		if len(seen) != 5 {
			t.Errorf("%d different refs, want 5", len(seen))
		}
	})
}
