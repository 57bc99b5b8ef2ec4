package consign_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/consign-go/consign"
)

func notice(ticket int) consign.Message {
	return consign.Message{
		Channel: "crm", To: "https://crm.example/hook", Task: "ticket-41", Index: 2, Subject: "session-9",
		Payload: map[string]any{"event": "ticket.triaged", "ticket": ticket},
	}
}

const triageSQL = `UPDATE {t}ticket SET status = 'triaged', lock_version = lock_version + 1 WHERE id = 41`

// intents and deliveries are one to one, always.
func stored(t testing.TB, h *host) int {
	t.Helper()
	n := h.count(t, `SELECT count(*) FROM {s}intent`)
	if d := h.count(t, `SELECT count(*) FROM {s}delivery`); d != n {
		t.Fatalf("%d intents but %d deliveries", n, d)
	}
	return n
}

func mustCommit(t testing.TB, tx *txn) {
	t.Helper()
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

func TestRowAndIntentCommitTogetherOrNotAtAll(t *testing.T) {
	onEveryStore(t, consign.Options{}, func(t *testing.T, h *host) {
		for _, commit := range []bool{false, true} {
			tx := h.begin(t)
			if err := tx.Exec(triageSQL); err != nil {
				t.Fatal(err)
			}
			ref, err := tx.Enqueue(notice(41))
			if err != nil {
				t.Fatal(err)
			}
			end, want, status := tx.Rollback, 0, "new"
			if commit {
				end, want, status = tx.Commit, 1, "triaged"
			}
			if err := end(); err != nil {
				t.Fatal(err)
			}
			if n := stored(t, h); n != want {
				t.Errorf("commit %v: %d intents, want %d", commit, n, want)
			}
			if s := h.text(t, `SELECT status FROM {t}ticket WHERE id = 41`); s != status {
				t.Errorf("commit %v: the ticket is %s, want %s", commit, s, status)
			}
			_, err = h.outbox.Find(t.Context(), ref)
			if commit != (err == nil) || !commit && !errors.Is(err, consign.ErrNotFound) {
				t.Errorf("commit %v: find: %v", commit, err)
			}
		}
	})
}

func TestFindTellsWhatWasCommitted(t *testing.T) {
	o := consign.Options{Channels: []consign.Channel{{Name: "crm", Retry: consign.OnSchedule, MaxAge: time.Hour}}}
	onEveryStore(t, o, func(t *testing.T, h *host) {
		m := notice(41)
		m.NotBefore = time.Now().Add(time.Minute)
		m.Payload = json.RawMessage(`{ "ticket": 4.10e1, "event": "é\u0020x" }`)
		ref, err := h.outbox.EnqueueNow(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		got, err := h.outbox.Find(t.Context(), ref)
		if err != nil {
			t.Fatal(err)
		}
		if string(got.Payload) != `{"event":"é x","ticket":41}` {
			t.Errorf("payload %s is not the canonical form", got.Payload)
		}
		if got.To != m.To || got.Task != m.Task || got.Index != m.Index || got.Subject != m.Subject || got.Kind != "crm" {
			t.Errorf("stored %+v", got)
		}
		if got.Profile != consign.ProfileMessage || got.Status != consign.StatusPending || got.Code != "" || got.Attempts != 0 {
			t.Errorf("a fresh message is %s %s, code %q, %d attempts", got.Profile, got.Status, got.Code, got.Attempts)
		}
		if got.DeliveryKey != ref.ID {
			t.Errorf("delivery key %s, want the ref %s", got.DeliveryKey, ref)
		}
		if d := got.DueAt.Sub(m.NotBefore); d < -time.Millisecond || d > time.Millisecond {
			t.Errorf("due %s from the earliest time", d)
		}
		if d := got.Deadline.Sub(got.DueAt); d != time.Hour {
			t.Errorf("the deadline is %s after the due time, want the channel's maximum age of 1h", d)
		}
		if time.Since(got.CreatedAt).Abs() > time.Minute || got.UpdatedAt.IsZero() {
			t.Errorf("created %s, updated %s", got.CreatedAt, got.UpdatedAt)
		}
	})
}

// The payload is data: members that are named like the message's own fields mean
// nothing to the store.
func TestPayloadIsNeverInterpreted(t *testing.T) {
	onEveryStore(t, consign.Options{}, func(t *testing.T, h *host) {
		m := notice(41)
		const payload = `{"attempts":9,"channel":"sms","id":"x","index":7,"status":"delivered","subject":"s","task":"t","to":"you"}`
		m.Payload = json.RawMessage(payload)
		ref, err := h.outbox.EnqueueNow(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		got, err := h.outbox.Find(t.Context(), ref)
		if err != nil || string(got.Payload) != payload {
			t.Fatalf("payload %s: %v", got.Payload, err)
		}
		if got.Kind != m.Channel || got.To != m.To || got.Task != m.Task || got.Index != m.Index || got.Subject != m.Subject ||
			got.Status != consign.StatusPending || got.Attempts != 0 || got.Ref != ref {
			t.Errorf("stored %+v", got)
		}
	})
}

func TestEveryLimitIsAnErrorThatNamesFieldAndLimit(t *testing.T) {
	object := func(n int) json.RawMessage { // canonical bytes: n
		return json.RawMessage(`{"a":"` + strings.Repeat("x", n-8) + `"}`)
	}
	nested := func(depth int) json.RawMessage {
		return json.RawMessage(strings.Repeat(`{"a":`, depth-1) + `{}` + strings.Repeat(`}`, depth-1))
	}
	long := strings.Repeat("k", 129)
	type bad = func(m *consign.Message)
	cases := []struct {
		name, fault string
		set         bad
	}{
		{"empty channel", "channel 0 bytes, limit 1 to 128", func(m *consign.Message) { m.Channel = "" }},
		{"channel of 129 bytes", "channel 129 bytes, limit 1 to 128", func(m *consign.Message) { m.Channel = long }},
		{"channel not ASCII", "channel byte 1 is not printable ASCII", func(m *consign.Message) { m.Channel = "cé" }},
		{"channel with NUL", "channel byte 1 is not printable ASCII", func(m *consign.Message) { m.Channel = "c\x00" }},
		{"to of 2049 bytes", "to 2049 bytes, limit 0 to 2048", func(m *consign.Message) { m.To = strings.Repeat("t", 2049) }},
		{"to with NUL", "to contains a control character", func(m *consign.Message) { m.To = "a\x00b" }},
		{"to not UTF-8", "to is not valid UTF-8", func(m *consign.Message) { m.To = "a\xff" }},
		{"task of 129 bytes", "task 129 bytes, limit 0 to 128", func(m *consign.Message) { m.Task = long }},
		{"subject of 129 bytes", "subject 129 bytes, limit 0 to 128", func(m *consign.Message) { m.Subject = long }},
		{"negative index", "index -1, limit 0 to 2147483647", func(m *consign.Message) { m.Index = -1 }},
		{"index over 31 bits", "index 2147483648, limit 0 to 2147483647", func(m *consign.Message) { m.Index = math.MaxInt32 + 1 }},
		{"year 10000", "not_before year 10000, limit 1970 to 9999", func(m *consign.Message) { m.NotBefore = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) }},
		{"no payload", "payload", func(m *consign.Message) { m.Payload = nil }},
		{"payload an array", "payload", func(m *consign.Message) { m.Payload = []int{1} }},
		{"payload a string", "payload", func(m *consign.Message) { m.Payload = "secret" }},
		{"payload of 16385 bytes", "16384", func(m *consign.Message) { m.Payload = object(16385) }},
		{"payload of depth 9", "8", func(m *consign.Message) { m.Payload = nested(9) }},
		{"2^53+1", "string", func(m *consign.Message) { m.Payload = map[string]any{"n": int64(1)<<53 + 1} }},
		{"raw 2^53+1", "string", func(m *consign.Message) { m.Payload = json.RawMessage(`{"n":9007199254740993}`) }},
		{"NaN", "payload", func(m *consign.Message) { m.Payload = map[string]any{"n": math.NaN()} }},
		{"infinity", "payload", func(m *consign.Message) { m.Payload = map[string]any{"n": math.Inf(-1)} }},
		{"NUL in a value", "U+0000", func(m *consign.Message) { m.Payload = map[string]any{"secret": "a\x00"} }},
		{"escaped NUL", "U+0000", func(m *consign.Message) { m.Payload = json.RawMessage(`{"secret":"\u0000"}`) }},
		{"NUL in a key", "U+0000", func(m *consign.Message) { m.Payload = map[string]any{"a\x00": 1} }},
		{"invalid UTF-8", "UTF-8", func(m *consign.Message) { m.Payload = map[string]any{"secret": "\xc3\x28"} }},
		{"lone surrogate", "payload", func(m *consign.Message) { m.Payload = json.RawMessage(`{"secret":"\ud800"}`) }},
		{"duplicate keys", "payload", func(m *consign.Message) { m.Payload = json.RawMessage(`{"a":1,"\u0061":2}`) }},
		{"colliding fields", "payload", func(m *consign.Message) { m.Payload = colliding() }},
		{"a time", "payload", func(m *consign.Message) { m.Payload = map[string]any{"at": time.Now()} }},
		{"bytes", "payload", func(m *consign.Message) { m.Payload = map[string]any{"raw": []byte("secret")} }},
		{"a function", "payload", func(m *consign.Message) { m.Payload = map[string]any{"f": func() {}} }},
		{"integer keys", "payload", func(m *consign.Message) { m.Payload = map[int]string{1: "secret"} }},
		{"broken JSON", "payload", func(m *consign.Message) { m.Payload = json.RawMessage(`{"secret":`) }},
		{"two values", "payload", func(m *consign.Message) { m.Payload = json.RawMessage(`{} {}`) }},
	}
	onEveryStore(t, consign.Options{}, func(t *testing.T, h *host) {
		tx := h.begin(t)
		for _, c := range cases {
			m := notice(41)
			c.set(&m)
			_, err := tx.Enqueue(m)
			checkInvalid(t, c.name, err, c.fault)
			// In a bulk the row is named, and the good row beside it is not written.
			_, err = tx.EnqueueAll([]consign.Message{notice(1), m})
			checkInvalid(t, c.name+" in a bulk", err, "messages[1].")
		}
		many := make([]consign.Message, consign.MaxBatch+1)
		_, err := tx.EnqueueAll(many)
		checkInvalid(t, "too many", err, "messages 10001, limit 10000")

		// The transaction is as it was: it goes on and commits.
		accepted := []bad{
			func(m *consign.Message) { m.Channel = strings.Repeat("c", 128) },
			func(m *consign.Message) { m.To = strings.Repeat("t", 2048) },
			func(m *consign.Message) { m.To, m.Task, m.Index, m.Subject = "", "", 0, "" },
			func(m *consign.Message) { m.Index = math.MaxInt32 },
			func(m *consign.Message) { m.Payload = object(16384) },
			func(m *consign.Message) { m.Payload = nested(8) },
			func(m *consign.Message) { m.Payload = map[string]any{"n": int64(1)<<53 - 1, "m": -(int64(1)<<53 - 1)} },
			func(m *consign.Message) { m.Payload = struct{}{} },
		}
		for i, set := range accepted {
			m := notice(41)
			set(&m)
			if _, err := tx.Enqueue(m); err != nil {
				t.Errorf("at the limit, case %d: %v", i, err)
			}
		}
		mustCommit(t, tx)
		if n := stored(t, h); n != len(accepted) {
			t.Errorf("%d intents, want only the %d accepted ones", n, len(accepted))
		}
	})
}

// colliding is a struct with two fields of one name, which vet would not let stand
// in the source.
func colliding() any {
	field := func(name string) reflect.StructField {
		return reflect.StructField{Name: name, Type: reflect.TypeFor[int](), Tag: `json:"x"`}
	}
	return reflect.New(reflect.StructOf([]reflect.StructField{field("A"), field("B")})).Elem().Interface()
}

func checkInvalid(t *testing.T, name string, err error, fault string) {
	t.Helper()
	var e *consign.Error
	switch {
	case !errors.Is(err, consign.ErrInvalid) || !errors.As(err, &e):
		t.Errorf("%s: %v, want ErrInvalid", name, err)
	case len(e.Faults) == 0 || !strings.Contains(err.Error(), fault):
		t.Errorf("%s: %q does not say %q", name, err, fault)
	case strings.Contains(err.Error(), "secret"):
		t.Errorf("%s: the error has content in it: %q", name, err)
	}
}

func TestAllFaultsInOneError(t *testing.T) {
	onEveryStore(t, consign.Options{}, func(t *testing.T, h *host) {
		tx := h.begin(t)
		defer tx.Rollback()
		_, err := tx.Enqueue(consign.Message{Index: -1, Task: "\x01", Payload: 3})
		var e *consign.Error
		if !errors.As(err, &e) || len(e.Faults) != 4 {
			t.Fatalf("got %v, want four faults: channel, task, index, payload", err)
		}
	})
}

func TestChannelMayRaiseThePayloadLimit(t *testing.T) {
	o := consign.Options{Channels: []consign.Channel{{Name: "crm", PayloadLimit: 20_000}}}
	onEveryStore(t, o, func(t *testing.T, h *host) {
		m := notice(41)
		for _, size := range []int{19_992, 19_993} {
			m.Payload = map[string]any{"a": strings.Repeat("x", size)}
			_, err := h.outbox.EnqueueNow(t.Context(), m)
			if size == 19_992 && err != nil {
				t.Errorf("20,000 bytes: %v", err)
			}
			if size == 19_993 {
				checkInvalid(t, "20,001 bytes", err, "20000")
			}
		}
	})
}

func TestRepeatedIDIsTheSameMessageAndOtherContentConflicts(t *testing.T) {
	onEveryStore(t, consign.Options{}, func(t *testing.T, h *host) {
		m := notice(41)
		m.ID = consign.NewRef()
		for i := range 2 { // across transactions
			tx := h.begin(t)
			for range 2 { // and inside one
				ref, err := tx.Enqueue(m)
				if err != nil || ref != m.ID {
					t.Fatalf("transaction %d: %s, %v; want %s", i, ref, err, m.ID)
				}
			}
			mustCommit(t, tx)
		}
		same := m
		same.NotBefore = time.Now().Add(time.Hour) // a wish about delivery, not content
		if _, err := h.outbox.EnqueueNow(t.Context(), same); err != nil {
			t.Errorf("another earliest time: %v", err)
		}
		changes := map[string]func(*consign.Message){
			"channel": func(m *consign.Message) { m.Channel = "sms" },
			"to":      func(m *consign.Message) { m.To = "https://other.example" },
			"payload": func(m *consign.Message) { m.Payload = map[string]any{"event": "secret"} },
			"task":    func(m *consign.Message) { m.Task = "" },
			"index":   func(m *consign.Message) { m.Index = 3 },
			"subject": func(m *consign.Message) { m.Subject = "session-1" },
		}
		for field, set := range changes {
			other := m
			set(&other)
			tx := h.begin(t)
			_, err := tx.Enqueue(other)
			checkConflict(t, field, err)
			_, err = tx.EnqueueAll([]consign.Message{notice(1), other, notice(2)})
			checkConflict(t, field+" in a bulk", err)
			_, err = tx.EnqueueAll([]consign.Message{m, other})
			checkConflict(t, field+" twice in a bulk", err)
			mustCommit(t, tx) // the transaction is usable, and none of the bulk is in it
		}
		if n := stored(t, h); n != 1 {
			t.Errorf("%d intents, want the one", n)
		}
	})
}

func checkConflict(t *testing.T, name string, err error) {
	t.Helper()
	if !errors.Is(err, consign.ErrConflict) {
		t.Errorf("%s: %v, want ErrConflict", name, err)
	} else if s := err.Error(); strings.Contains(s, "triaged") || strings.Contains(s, "secret") || strings.Contains(s, "example") {
		t.Errorf("%s: the error reveals content: %q", name, s)
	}
}

func TestBulkKeepsOrderAndMixesGivenAndFreshIDs(t *testing.T) {
	onEveryStore(t, consign.Options{}, func(t *testing.T, h *host) {
		ms := make([]consign.Message, 25)
		for i := range ms {
			ms[i] = notice(i)
			ms[i].Index = i
			if i%5 == 0 {
				ms[i].ID = consign.NewRef()
			}
		}
		ms = append(ms, ms[5]) // the same message again
		tx := h.begin(t)
		refs, err := tx.EnqueueAll(ms)
		if err != nil {
			t.Fatal(err)
		}
		mustCommit(t, tx)
		if refs[25] != refs[5] {
			t.Errorf("the repeated message has ref %s, want %s", refs[25], refs[5])
		}
		for i, ref := range refs[:25] {
			got, err := h.outbox.Find(t.Context(), ref)
			if err != nil || got.Index != i || string(got.Payload) != fmt.Sprintf(`{"event":"ticket.triaged","ticket":%d}`, i) {
				t.Errorf("ref %d finds index %d: %v", i, got.Index, err)
			}
		}
		if n := stored(t, h); n != 25 {
			t.Errorf("%d intents, want 25", n)
		}
		tx = h.begin(t)
		if refs, err := tx.EnqueueAll(nil); err != nil || len(refs) != 0 {
			t.Errorf("an empty bulk: %v, %v", refs, err)
		}
		mustCommit(t, tx)
	})
}

func TestClosedTransactionIsRefused(t *testing.T) {
	onEveryStore(t, consign.Options{}, func(t *testing.T, h *host) {
		for _, end := range []string{"commit", "rollback"} {
			tx := h.begin(t)
			if end == "commit" {
				mustCommit(t, tx)
			} else if err := tx.Rollback(); err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Enqueue(notice(1)); !errors.Is(err, consign.ErrClosed) {
				t.Errorf("after %s: %v, want ErrClosed", end, err)
			}
			m := notice(1)
			m.ID = consign.NewRef()
			if _, err := tx.EnqueueAll([]consign.Message{m}); !errors.Is(err, consign.ErrClosed) {
				t.Errorf("with an ID, after %s: %v, want ErrClosed", end, err)
			}
		}
		if n := stored(t, h); n != 0 {
			t.Errorf("%d intents, want none", n)
		}
	})
}
