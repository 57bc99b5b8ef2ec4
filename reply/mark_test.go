package reply_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/reply"
)

var busy = consign.Refused(errors.New("status 503"), 0)

// shows checks what a reader sees of a reply.
func (h *host) shows(r reply.Record, err error, status consign.Status, attempts int, lastError string) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
	if found := h.find(r.ID); !same(found, r) {
		h.t.Errorf("the mark returned %+v, a reader sees %+v", r, found)
	}
	if r.Status != status || r.Attempts != attempts || r.LastError != lastError {
		h.t.Errorf("shows %s, %d attempts, %q; want %s, %d, %q", r.Status, r.Attempts, r.LastError, status, attempts, lastError)
	}
}

// Recording an attempt adds one, stores what the receiver answered, clears it where
// nothing is given, and never ends the reply, however many there are.
func TestRecordAttemptCountsAndKeepsTheError(t *testing.T) {
	onEveryStore(t, reply.Options{}, func(t *testing.T, h *host) {
		c := h.claim(h.create(answer()).ID)
		for n := 1; n <= 12; n++ {
			if got := c.Attempt().Number; got != n {
				t.Errorf("attempt %d is numbered %d", n, got)
			}
			r, err := c.RecordAttempt(t.Context(), fmt.Errorf("try %d: %w", n, busy))
			h.shows(r, err, consign.StatusDelivering, n, fmt.Sprintf("try %d: refused: status 503", n))
		}
		r, err := c.RecordAttempt(t.Context(), nil)
		h.shows(r, err, consign.StatusDelivering, 13, "")
		h.lost("still held", r.ID)
		long := strings.Repeat("é", 2000)
		r, err = c.RecordAttempt(t.Context(), errors.New(long))
		h.shows(r, err, consign.StatusDelivering, 14, long[:1024])
	})
}

// Delivered adds one attempt, clears the error, and is returned unchanged when it is
// marked again: no second count, no newer time.
func TestMarkDeliveredCountsOnce(t *testing.T) {
	onEveryStore(t, reply.Options{}, func(t *testing.T, h *host) {
		c := h.claim(h.create(answer()).ID)
		if _, err := c.RecordAttempt(t.Context(), errors.New("timeout")); err != nil {
			t.Fatal(err)
		}
		if r := c.Record(); !r.Uncertain {
			t.Errorf("after a timeout: %+v", r)
		}
		r, err := c.MarkDelivered(t.Context())
		h.shows(r, err, consign.StatusDelivered, 2, "")
		if r.Uncertain || r.Code != "" {
			t.Errorf("a success leaves doubt: %+v", r)
		}
		before := h.rows()
		for range 3 {
			again, err := c.MarkDelivered(t.Context())
			if err != nil || !same(again, r) {
				t.Errorf("marked again: %+v, %v", again, err)
			}
		}
		if after := h.rows(); after != before {
			t.Errorf("marking again changed\n%s\nto\n%s", before, after)
		}
		h.lost("delivered", r.ID)
	})
}

// Failed is an end, adds no attempt, and keeps the last error unless it is given one.
func TestMarkFailedKeepsCountAndError(t *testing.T) {
	onEveryStore(t, reply.Options{}, func(t *testing.T, h *host) {
		for _, c := range []struct {
			why  error
			want string
			code consign.Code
		}{
			{nil, "refused: status 503", consign.CodeAttemptsExhausted},
			{consign.Refused(errors.New("still busy"), 0), "refused: still busy", consign.CodeAttemptsExhausted},
			{consign.Rejected(errors.New("status 410")), "rejected: status 410", consign.CodeRejected},
		} {
			claim := h.claim(h.create(answer()).ID)
			for range 2 {
				if _, err := claim.RecordAttempt(t.Context(), busy); err != nil {
					t.Fatal(err)
				}
			}
			r, err := claim.MarkFailed(t.Context(), c.why)
			h.shows(r, err, consign.StatusFailed, 2, c.want)
			if r.Code != c.code || r.Uncertain {
				t.Errorf("failed with %s, uncertain %v", r.Code, r.Uncertain)
			}
			again, err := claim.MarkFailed(t.Context(), errors.New("once more"))
			if err != nil || !same(again, r) {
				t.Errorf("marked again: %+v, %v", again, err)
			}
			h.lost("failed", r.ID)
			if n := len(h.pending()); n != 0 {
				t.Errorf("%d pending", n)
			}
		}
	})
}

// Each mark that changes a reply refreshes its updated time.
func TestMarksRefreshTheUpdatedTime(t *testing.T) {
	onEveryStore(t, reply.Options{}, func(t *testing.T, h *host) {
		marks := map[string]func(c *reply.Claim) (reply.Record, error){
			"record attempt": func(c *reply.Claim) (reply.Record, error) { return c.RecordAttempt(t.Context(), busy) },
			"mark delivered": func(c *reply.Claim) (reply.Record, error) { return c.MarkDelivered(t.Context()) },
			"mark failed":    func(c *reply.Claim) (reply.Record, error) { return c.MarkFailed(t.Context(), busy) },
		}
		for name, mark := range marks {
			created := h.create(answer())
			c := h.claim(created.ID)
			h.exec("UPDATE {s}delivery SET updated_at = updated_at - 3600 * {second}")
			before := h.find(created.ID).UpdatedAt
			r, err := mark(c)
			if err != nil || !r.UpdatedAt.After(before.Add(1800e9)) || !r.CreatedAt.Equal(created.CreatedAt) {
				t.Errorf("%s: created %s, updated %s, was %s, %v", name, r.CreatedAt, r.UpdatedAt, before, err)
			}
		}
	})
}

// What its sender does not vouch for may have arrived: it fails as unknown and waits
// for a person, whatever was recorded before and after it.
func TestUnknownAttemptLeavesTheReplyUncertain(t *testing.T) {
	timeout := context.DeadlineExceeded
	onEveryStore(t, reply.Options{}, func(t *testing.T, h *host) {
		for name, send := range map[string]func(c *reply.Claim) (reply.Record, error){
			"timed out, then refused": func(c *reply.Claim) (reply.Record, error) {
				c.RecordAttempt(t.Context(), busy)
				c.RecordAttempt(t.Context(), timeout)
				c.RecordAttempt(t.Context(), busy)
				return c.MarkFailed(t.Context(), nil)
			},
			"nothing told": func(c *reply.Claim) (reply.Record, error) {
				c.RecordAttempt(t.Context(), nil)
				return c.MarkFailed(t.Context(), nil)
			},
			"given up with a timeout": func(c *reply.Claim) (reply.Record, error) { return c.MarkFailed(t.Context(), timeout) },
			"two things at once": func(c *reply.Claim) (reply.Record, error) {
				c.RecordAttempt(t.Context(), errors.Join(consign.NotSent(errors.New("no route")), timeout))
				return c.MarkFailed(t.Context(), nil)
			},
		} {
			r, err := send(h.claim(h.create(answer()).ID))
			if err != nil || r.Status != consign.StatusFailed || r.Code != consign.CodeOutcomeUnknown || !r.Uncertain {
				t.Errorf("%s: %+v, %v", name, r, err)
			}
		}
		const review = "SELECT CAST(count(*) AS text) FROM {s}delivery WHERE uncertain AND review_at IS NOT NULL"
		if n := h.text(review); n != "4" {
			t.Errorf("%s wait for a person, want all", n)
		}
	})
}

// What each attempt came to is in the log under its number.
func TestAttemptsAreLoggedUnderTheirNumbers(t *testing.T) {
	onEveryStore(t, reply.Options{}, func(t *testing.T, h *host) {
		c := h.claim(h.create(answer()).ID)
		for _, err := range []error{busy, consign.NotSent(errors.New("no route")), consign.Rejected(errors.New("410")), errors.New("reset")} {
			if _, err := c.RecordAttempt(t.Context(), err); err != nil {
				t.Fatal(err)
			}
		}
		if got, want := h.log(), "1/1 refused;1/2 not_sent;1/3 rejected;1/4 unknown"; got != want {
			t.Errorf("log %s, want %s", got, want)
		}
	})
}

// log is the attempt log: generation, number and outcome, late ones marked.
func (h *host) log() string {
	h.t.Helper()
	const line = `generation || '/' || number || CASE outcome WHEN 1 THEN ' not_sent' WHEN 2 THEN ' refused' WHEN 3 THEN ' rejected'
		WHEN 4 THEN ' unknown' WHEN 5 THEN ' accepted' ELSE ' ?' END || CASE WHEN late THEN ' late' ELSE '' END`
	aggregate := "group_concat(" + line + ", ';')"
	if strings.HasPrefix(h.address, "postgres") {
		aggregate = "string_agg(" + line + ", ';' ORDER BY generation, number, late)"
	}
	return h.text("SELECT coalesce(" + aggregate + ", '') FROM (SELECT * FROM {s}attempt ORDER BY generation, number, late) a")
}

// A purge in the middle of a delivery fences what the sender says afterwards: nothing
// of the reply comes back, and the bare outcomes are kept, each once.
func TestPurgeInFlightFencesTheLateMarks(t *testing.T) {
	onEveryStore(t, reply.Options{}, func(t *testing.T, h *host) {
		created := h.create(answer(of("session")))
		c := h.claim(created.ID)
		if _, err := c.RecordAttempt(t.Context(), busy); err != nil {
			t.Fatal(err)
		}
		if n, err := h.PurgeSessions(t.Context(), "session"); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		before := h.rows()
		gone := func(err error) {
			t.Helper()
			if !errors.Is(err, consign.ErrFenced) || !errors.Is(err, consign.ErrNotFound) {
				t.Errorf("%v, want both ErrFenced and ErrNotFound", err)
			}
		}
		_, err := c.RecordAttempt(t.Context(), errors.New("needle"))
		gone(err)
		_, err = c.RecordAttempt(t.Context(), busy)
		gone(err)
		for range 2 {
			_, err = c.MarkDelivered(t.Context())
			gone(err)
		}
		_, err = c.MarkFailed(t.Context(), errors.New("needle"))
		gone(err)
		if after := h.rows(); after != before {
			t.Errorf("late marks changed\n%s\nto\n%s", before, after)
		}
		if got, want := h.log(), "1/1 refused;1/2 unknown late;1/3 refused late;1/4 accepted late"; got != want {
			t.Errorf("log %s, want %s", got, want)
		}
		if n := h.text("SELECT CAST(count(*) AS text) FROM {s}attempt WHERE error IS NOT NULL"); n != "0" {
			t.Errorf("%s texts came back", n)
		}
	})
}

// A mark of a claim that is no longer current is fenced and changes nothing, and what
// it saw is kept beside the row.
func TestMarksOfAStaleClaimAreFenced(t *testing.T) {
	onEveryStore(t, reply.Options{}, func(t *testing.T, h *host) {
		created := h.create(answer())
		c := h.claim(created.ID)
		// What a person's resolution of a stranded reply does to its claim.
		h.exec("UPDATE {s}delivery SET owner = NULL, lease_until = NULL, generation = generation + 1, revision = revision + 1, in_flight = false, review_at = NULL")
		before := h.rows()
		for name, err := range map[string]error{
			"record attempt": second(c.RecordAttempt(t.Context(), busy)),
			"mark failed":    second(c.MarkFailed(t.Context(), nil)),
			"mark delivered": second(c.MarkDelivered(t.Context())),
		} {
			if !errors.Is(err, consign.ErrFenced) || errors.Is(err, consign.ErrNotFound) {
				t.Errorf("%s: %v, want ErrFenced", name, err)
			}
		}
		if after := h.rows(); after != before {
			t.Errorf("changed\n%s\nto\n%s", before, after)
		}
		if got := h.log(); strings.Count(got, "late") != 2 || !strings.Contains(got, "accepted late") || !strings.Contains(got, "refused late") {
			t.Errorf("log %s", got)
		}
	})
}

func second[T any](_ T, err error) error { return err }

// An ended reply takes no other end, and what is said of it then is evidence.
func TestEndedReplyKeepsItsEnd(t *testing.T) {
	onEveryStore(t, reply.Options{}, func(t *testing.T, h *host) {
		c := h.claim(h.create(answer()).ID)
		failed, err := c.MarkFailed(t.Context(), busy)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.MarkDelivered(t.Context()); !errors.Is(err, consign.ErrFenced) {
			t.Errorf("delivered after failed: %v", err)
		}
		if got := h.find(failed.ID); !same(got, failed) {
			t.Errorf("became %+v", got)
		}
		if got := h.log(); got != "1/1 accepted late" {
			t.Errorf("log %s", got)
		}
	})
}

// A mark on a reply that is gone is ErrNotFound.
func TestMarkOfADeletedReplyIsNotFound(t *testing.T) {
	onEveryStore(t, reply.Options{}, func(t *testing.T, h *host) {
		c := h.claim(h.create(answer()).ID)
		if _, err := c.MarkDelivered(t.Context()); err != nil {
			t.Fatal(err)
		}
		h.exec("UPDATE {s}delivery SET created_at = created_at - 3600 * {second}")
		if n, err := h.DeleteOlderThan(t.Context(), h.find(c.Record().ID).UpdatedAt); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		for name, err := range map[string]error{
			"record attempt": second(c.RecordAttempt(t.Context(), busy)),
			"mark failed":    second(c.MarkFailed(t.Context(), nil)),
			"mark delivered": second(c.MarkDelivered(t.Context())),
		} {
			if !errors.Is(err, consign.ErrNotFound) || errors.Is(err, consign.ErrFenced) {
				t.Errorf("%s: %v, want ErrNotFound", name, err)
			}
		}
	})
}

// The claim of a sender that took too long can still say what became of the reply, as
// long as nobody else has decided; nobody else sends it.
func TestClaimOutlivesItsLeaseForWhatItSaw(t *testing.T) {
	onEveryStore(t, reply.Options{}, func(t *testing.T, h *host) {
		c := h.claim(h.create(answer()).ID)
		h.leaseOver()
		r, err := c.RecordAttempt(t.Context(), busy)
		h.shows(r, err, consign.StatusDelivering, 1, "refused: status 503")
		r, err = c.MarkDelivered(t.Context())
		h.shows(r, err, consign.StatusDelivered, 2, "")
	})
}

// A mark outlives the context of its caller: what is known is written down.
func TestMarkOutlivesItsContext(t *testing.T) {
	onEveryStore(t, reply.Options{}, func(t *testing.T, h *host) {
		c := h.claim(h.create(answer()).ID)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		r, err := c.RecordAttempt(ended, busy)
		h.shows(r, err, consign.StatusDelivering, 1, "refused: status 503")
		r, err = c.MarkDelivered(ended)
		h.shows(r, err, consign.StatusDelivered, 2, "")
	})
}
