package reply_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/reply"
)

// A created reply shows everything that it was created with, and begins pending with
// no attempts and no error. The calls of the API are the second design's, by name.
func TestCreatedReplyIsReadAsItWasStored(t *testing.T) {
	onEveryStore(t, reply.Options{}, func(t *testing.T, h *host) {
		before := time.Now().Add(-time.Minute)
		id := consign.NewRef()
		m := reply.Message{
			ID: id, Channel: "relay", To: "https://example.org/callback", Task: "turn 7", Index: 3, Session: "session 9",
			Payload: map[string]any{"text": "héllo", "n": 1},
		}
		r := h.create(m)
		if found := h.find(id); !same(found, r) {
			t.Errorf("found %+v, created %+v", found, r)
		}
		if r.ID != id || r.Channel != m.Channel || r.To != m.To || r.Task != m.Task || r.Index != 3 || r.Session != m.Session ||
			string(r.Payload) != `{"n":1,"text":"héllo"}` {
			t.Errorf("stored %+v", r)
		}
		if r.Status != consign.StatusPending || r.Attempts != 0 || r.LastError != "" || r.Code != "" || r.Uncertain {
			t.Errorf("begins as %+v", r)
		}
		if !r.CreatedAt.Equal(r.UpdatedAt) || r.CreatedAt.Before(before) || r.CreatedAt.After(time.Now().Add(time.Minute)) {
			t.Errorf("created %s, updated %s", r.CreatedAt, r.UpdatedAt)
		}

		least := h.create(answer())
		if least.ID.IsZero() || least.ID == id || least.Task != "" || least.Session != "" || least.Index != 0 {
			t.Errorf("with nothing but the required: %+v", least)
		}
		if n := h.text("SELECT CAST(count(*) AS text) FROM {s}intent WHERE task IS NULL AND subject IS NULL"); n != "1" {
			t.Errorf("%s rows without task and session, want absent ones stored as absent", n)
		}
	})
}

// same compares records; times of one instant are the same.
func same(a, b reply.Record) bool {
	if !a.CreatedAt.Equal(b.CreatedAt) || !a.UpdatedAt.Equal(b.UpdatedAt) || string(a.Payload) != string(b.Payload) {
		return false
	}
	a.CreatedAt, a.UpdatedAt, a.Payload = b.CreatedAt, b.UpdatedAt, nil
	b.Payload = nil
	return a.ID == b.ID && a.Channel == b.Channel && a.To == b.To && a.Task == b.Task && a.Index == b.Index && a.Session == b.Session &&
		a.Status == b.Status && a.Attempts == b.Attempts && a.LastError == b.LastError && a.Code == b.Code && a.Uncertain == b.Uncertain
}

// Channel, recipient and payload are required, and all faults come in one error that
// names the fields as they are called here.
func TestCreateTellsEveryFault(t *testing.T) {
	onEveryStore(t, reply.Options{}, func(t *testing.T, h *host) {
		_, err := h.Create(t.Context(), reply.Message{Index: -1, Session: strings.Repeat("s", 129)})
		wantFaults(t, err, "create", "channel", "to", "session", "index", "payload")
		_, err = h.CreateAll(t.Context(), []reply.Message{answer(), {To: strings.Repeat("a", 2049), Session: "\n"}})
		wantFaults(t, err, "create", "messages[1].channel", "messages[1].to", "messages[1].session", "messages[1].payload")
		tx := h.begin()
		defer tx.rollback()
		_, err = tx.create(reply.Message{Channel: "relay", Payload: map[string]any{}})
		wantFaults(t, err, "create", "to")
		if err == nil || err.Error() != "consign: create: to 0 bytes, limit 1 to 2048" {
			t.Errorf("says %v", err)
		}
		if err := tx.rollback(); err != nil {
			t.Fatal(err)
		}
		if n := len(h.pending()); n != 0 {
			t.Errorf("%d replies were created all the same", n)
		}
	})
}

func wantFaults(t *testing.T, err error, op string, fields ...string) {
	t.Helper()
	var e *consign.Error
	if !errors.As(err, &e) || !errors.Is(err, consign.ErrInvalid) || e.Op != op {
		t.Fatalf("%v, want an ErrInvalid of %s", err, op)
	}
	var got []string
	for _, f := range e.Faults {
		got = append(got, f.Field)
	}
	slices.Sort(got)
	slices.Sort(fields)
	if !slices.Equal(got, fields) {
		t.Errorf("faults %q, want %q", got, fields)
	}
}

// A reply commits with the caller's transaction or not at all, single or in bulk.
func TestRepliesCommitWithTheCallersTransaction(t *testing.T) {
	onEveryStore(t, reply.Options{}, func(t *testing.T, h *host) {
		h.exec("CREATE TABLE {s}turn (id integer)")
		for _, commit := range []bool{false, true} {
			tx := h.begin()
			if err := tx.exec("INSERT INTO {s}turn VALUES (1)"); err != nil {
				t.Fatal(err)
			}
			one, err := tx.create(answer())
			if err != nil {
				t.Fatal(err)
			}
			more, err := tx.createAll([]reply.Message{answer(in("a", 1)), answer(in("a", 0))})
			if err != nil || len(more) != 2 {
				t.Fatal(more, err)
			}
			if commit {
				err = tx.commit()
			} else {
				err = tx.rollback()
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, id := range append(more, one) {
				_, found, err := h.Find(t.Context(), id)
				if err != nil || found != commit {
					t.Errorf("committed %v: found %v, %v", commit, found, err)
				}
			}
			if n := h.text("SELECT CAST(count(*) AS text) FROM {s}turn"); n != map[bool]string{false: "0", true: "1"}[commit] {
				t.Errorf("committed %v: %s rows", commit, n)
			}
			if _, err := tx.create(answer()); err == nil {
				t.Error("a finished transaction took a reply")
			}
		}
	})
}

// The same ID with the same content is the same reply, whatever became of it; other
// content is a conflict, and nothing is ever reset.
func TestCreatingAgainChangesNothing(t *testing.T) {
	onEveryStore(t, reply.Options{}, func(t *testing.T, h *host) {
		m := answer(in("turn", 1), of("session"))
		m.ID = consign.NewRef()
		h.create(m)
		if _, err := h.claim(m.ID).MarkDelivered(t.Context()); err != nil {
			t.Fatal(err)
		}
		was := h.find(m.ID)
		again, err := h.Create(t.Context(), m)
		if err != nil || !same(again, was) {
			t.Errorf("created again: %+v, %v; was %+v", again, err, was)
		}
		other := m
		other.Payload = map[string]any{"text": "goodbye"}
		if _, err := h.Create(t.Context(), other); !errors.Is(err, consign.ErrConflict) || strings.Contains(err.Error(), "goodbye") {
			t.Errorf("other content: %v", err)
		}
		if _, err := h.CreateAll(t.Context(), []reply.Message{answer(), other}); !errors.Is(err, consign.ErrConflict) {
			t.Errorf("other content in bulk: %v", err)
		}
		if n := len(h.pending()); n != 0 || !same(h.find(m.ID), was) {
			t.Errorf("%d were created, and the first is %+v", n, h.find(m.ID))
		}
	})
}

// A bulk keeps its order; none is no fault.
func TestCreateAllKeepsItsOrder(t *testing.T) {
	onEveryStore(t, reply.Options{}, func(t *testing.T, h *host) {
		ms := make([]reply.Message, 250)
		for i := range ms {
			ms[i] = answer(in("turn", len(ms)-i))
		}
		records, err := h.CreateAll(t.Context(), ms)
		if err != nil || len(records) != len(ms) {
			t.Fatal(len(records), err)
		}
		for i, r := range records {
			if r.Index != ms[i].Index || r.Status != consign.StatusPending {
				t.Fatalf("number %d is %+v", i, r)
			}
		}
		if none, err := h.CreateAll(t.Context(), nil); err != nil || len(none) != 0 {
			t.Errorf("none: %v, %v", none, err)
		}
	})
}

// What a channel says of the payload limit holds for its replies and for no others.
func TestPayloadLimitIsTheChannels(t *testing.T) {
	o := reply.Options{Channels: []consign.Channel{{Name: "large", PayloadLimit: 100_000}}}
	onEveryStore(t, o, func(t *testing.T, h *host) {
		sized := func(channel string, bytes int) reply.Message {
			return answer(func(m *reply.Message) {
				m.Channel, m.Payload = channel, map[string]any{"t": strings.Repeat("x", bytes-len(`{"t":""}`))}
			})
		}
		if r := h.create(sized("large", 100_000)); len(r.Payload) != 100_000 {
			t.Errorf("stored %d bytes", len(r.Payload))
		}
		h.create(sized("relay", 16<<10))
		for _, m := range []reply.Message{sized("large", 100_001), sized("relay", 16<<10+1)} {
			_, err := h.Create(t.Context(), m)
			wantFaults(t, err, "create", "payload")
		}
	})
}

func TestNewRefusesBadOptions(t *testing.T) {
	_, err := reply.New(onlyStore(), &reply.Options{Program: "a\n", Channels: []consign.Channel{{Name: ""}, {Name: "a", PayloadLimit: -1}}})
	wantFaults(t, err, "new", "program", "channels[0].name", "channels[1].payload_limit")
	if _, err := reply.New[any](nil, nil); !errors.Is(err, consign.ErrInvalid) {
		t.Errorf("no store: %v", err)
	}
}
