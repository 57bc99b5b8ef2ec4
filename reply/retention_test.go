package reply_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/reply"
)

// Retention removes what has ended and was created strictly before the given time,
// whatever the zone in which it is written, and says how many. It never removes what
// is pending or delivering, nor what a person has yet to look at.
func TestDeleteOlderThanRemovesOnlyWhatHasEnded(t *testing.T) {
	onEveryStore(t, reply.Options{}, func(t *testing.T, h *host) {
		end := func(mark func(c *reply.Claim) error) consign.Ref {
			c := h.claim(h.create(answer()).ID)
			if err := mark(c); err != nil {
				t.Fatal(err)
			}
			return c.Record().ID
		}
		delivered := end(func(c *reply.Claim) error { return second(c.MarkDelivered(t.Context())) })
		failed := end(func(c *reply.Claim) error { return second(c.MarkFailed(t.Context(), busy)) })
		unsure := end(func(c *reply.Claim) error { return second(c.MarkFailed(t.Context(), errors.New("timeout"))) })
		pending := h.create(answer()).ID
		delivering := h.claim(h.create(answer()).ID).Record().ID
		h.leaseOver()
		h.exec("UPDATE {s}delivery SET created_at = created_at - 864000 * {second}")
		later := end(func(c *reply.Claim) error { return second(c.MarkDelivered(t.Context())) })

		cutoff := h.find(later).CreatedAt
		h.exec("UPDATE {s}delivery SET updated_at = updated_at") // the time of creation alone counts
		elsewhere := cutoff.In(time.FixedZone("UTC+14", 14*3600))
		if n, err := h.DeleteOlderThan(t.Context(), elsewhere); n != 2 || err != nil {
			t.Fatalf("removed %d, %v; want 2", n, err)
		}
		for id, want := range map[consign.Ref]bool{
			delivered: false, failed: false, unsure: true, pending: true, delivering: true, later: true,
		} {
			if _, found, err := h.Find(t.Context(), id); err != nil || found != want {
				t.Errorf("%s: found %v, %v, want %v", id, found, err, want)
			}
		}
		if n, err := h.DeleteOlderThan(t.Context(), cutoff.Add(time.Second)); n != 1 || err != nil {
			t.Errorf("removed %d, %v; want the later one", n, err)
		}
		h.exec("UPDATE {s}delivery SET review_at = NULL WHERE uncertain") // a person has resolved it
		if n, err := h.DeleteOlderThan(t.Context(), cutoff); n != 1 || err != nil {
			t.Errorf("removed %d, %v; want the resolved one", n, err)
		}
		for _, never := range []time.Time{{}, time.Unix(0, 0)} {
			if n, err := h.DeleteOlderThan(t.Context(), never); n != 0 || err != nil {
				t.Errorf("before %s: removed %d, %v", never, n, err)
			}
		}
		_, err := h.DeleteOlderThan(t.Context(), time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC))
		wantFaults(t, err, "delete older than", "time")
	})
}

// One call removes any number, in batches.
func TestDeleteOlderThanGoesOnOverItsBatches(t *testing.T) {
	onEveryStore(t, reply.Options{}, func(t *testing.T, h *host) {
		if _, err := h.CreateAll(t.Context(), moreThanABatch()); err != nil {
			t.Fatal(err)
		}
		out := h.messages(consign.Options{Workers: 1000, Channels: []consign.Channel{{
			Name: "relay", Deliver: func(context.Context, consign.Message, consign.Attempt) error { return nil },
		}}})
		if done, err := out.Drain(t.Context(), 2000); len(done) != 1001 || err != nil {
			t.Fatal(len(done), err)
		}
		if n, err := h.DeleteOlderThan(t.Context(), time.Now().Add(time.Hour)); n != 1001 || err != nil {
			t.Errorf("removed %d, %v", n, err)
		}
		if n := h.text("SELECT CAST(count(*) AS text) FROM {s}intent"); n != "0" {
			t.Errorf("%s payloads are left", n)
		}
	})
}

func moreThanABatch() []reply.Message {
	ms := make([]reply.Message, 1001)
	for i := range ms {
		ms[i] = answer()
	}
	return ms
}

// A purge erases every reply of the sessions whatever its status, payload, recipient
// and texts included, and nothing of any other.
func TestPurgeSessionsErasesWhateverTheStatus(t *testing.T) {
	onEveryStore(t, reply.Options{}, func(t *testing.T, h *host) {
		secret := func(m *reply.Message) {
			m.To, m.Payload = "needle@example.org", map[string]any{"text": "needle"}
		}
		pending := h.create(answer(of("s1"), secret, in("turn", 0))).ID
		delivering := h.claim(h.create(answer(of("s1"), secret)).ID)
		failed := h.claim(h.create(answer(of("s2"), secret)).ID)
		if _, err := failed.RecordAttempt(t.Context(), errors.New("needle")); err != nil {
			t.Fatal(err)
		}
		if _, err := failed.MarkFailed(t.Context(), errors.New("needle again")); err != nil {
			t.Fatal(err)
		}
		delivered := h.claim(h.create(answer(of("s2"), secret)).ID)
		if _, err := delivered.MarkDelivered(t.Context()); err != nil {
			t.Fatal(err)
		}
		kept := h.create(answer(of("s3"))).ID
		nobodys := h.create(answer()).ID
		next := h.create(answer(in("turn", 1), of("s3"))).ID

		for _, none := range [][]string{nil, {}, {""}, {" ", ""}, {"S1", "s", "s11"}} {
			before := h.rows()
			if n, err := h.PurgeSessions(t.Context(), none...); n != 0 || err != nil || h.rows() != before {
				t.Errorf("purge of %q: %d, %v", none, n, err)
			}
		}
		h.lost("its turn has not come", next)
		if n, err := h.PurgeSessions(t.Context(), "s1"); n != 2 || err != nil {
			t.Errorf("purge of one: %d, %v", n, err)
		}
		if n, err := h.PurgeSessions(t.Context(), "s2", "s1", "none"); n != 2 || err != nil {
			t.Errorf("purge of a list: %d, %v", n, err)
		}
		for _, id := range []consign.Ref{pending, delivering.Record().ID, failed.Record().ID, delivered.Record().ID} {
			if r, found, err := h.Find(t.Context(), id); found || err != nil {
				t.Errorf("found %+v, %v", r, err)
			}
			if _, err := h.messages(consign.Options{}).Find(t.Context(), id); !errors.Is(err, consign.ErrNotFound) {
				t.Errorf("the outbox finds it: %v", err)
			}
		}
		for _, table := range []string{"intent", "delivery", "attempt"} {
			if strings.Contains(h.content(table), "needle") {
				t.Errorf("content is left in %s", table)
			}
		}
		for _, id := range []consign.Ref{kept, nobodys} {
			if r := h.find(id); string(r.Payload) != `{"text":"hello"}` {
				t.Errorf("what was not named is now %+v", r)
			}
		}
		h.claim(next) // an erased lower index holds nobody back
		again := answer()
		again.ID = pending
		if _, err := h.Create(t.Context(), again); !errors.Is(err, consign.ErrConflict) {
			t.Errorf("created again: %v", err)
		}
	})
}

// content is every text of a table.
func (h *host) content(table string) string {
	h.t.Helper()
	columns := map[string]string{
		"intent":   "coalesce(address, '') || payload || coalesce(task, '') || coalesce(subject, '')",
		"delivery": "coalesce(last_error, '') || coalesce(gate_task, '')",
		"attempt":  "coalesce(error, '')",
	}[table]
	aggregate := "group_concat(" + columns + ", ';')"
	if strings.HasPrefix(h.address, "postgres") {
		aggregate = "string_agg(" + columns + ", ';')"
	}
	return h.text("SELECT coalesce(" + aggregate + ", '') FROM {s}" + table)
}

// A channel that its program drives by hand is served: another program that serves
// something else leaves it alone, and stops it only once nobody drives it any more.
func TestChannelDrivenByHandIsServed(t *testing.T) {
	none := consign.Channel{Name: "other", Deliver: func(context.Context, consign.Message, consign.Attempt) error { return nil }}
	onEveryStore(t, reply.Options{}, func(t *testing.T, h *host) {
		waits := h.create(answer()).ID
		h.exec("UPDATE {s}delivery SET due_at = due_at - 3600 * {second}")
		for range h.Pending(t.Context()) { // whoever asks serves
		}
		other := h.messages(consign.Options{Channels: []consign.Channel{none}, HandlerGrace: 200 * time.Millisecond})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- other.Serve(ctx) }()
		if got := h.text("SELECT CAST(count(*) AS text) FROM {s}program_route WHERE kind = 'relay' AND profile = 2"); got != "1" {
			t.Errorf("%s entries of the channel", got)
		}
		until(t, "the other program has looked for several times its grace period", func() bool {
			return h.text("SELECT CAST(count(*) AS text) FROM {s}program WHERE heartbeat_at > started_at + {second} / 2") != "0"
		})
		if r := h.find(waits); r.Status != consign.StatusPending {
			t.Errorf("stands at %s %s", r.Status, r.Code)
		}
		h.exec("UPDATE {s}program SET heartbeat_at = heartbeat_at - 120 * {second} WHERE id IN (SELECT program_id FROM {s}program_route WHERE kind = 'relay')")
		until(t, "what nobody drives is stopped", func() bool { return h.find(waits).Status == consign.StatusFailed })
		if r := h.find(waits); r.Code != consign.CodeChannelMissing || r.Uncertain || r.Attempts != 0 {
			t.Errorf("stopped as %+v", r)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// until waits for a condition that must come about.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("did not come about: %s", what)
		}
	}
}
