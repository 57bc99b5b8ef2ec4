package consign_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/consign-go/consign"
)

// secret is in everything that a program hands over, and in nothing that it is told.
const secret = "dolores.umbridge"

// ears are everything that the engine says.
type ears struct {
	mu     sync.Mutex
	text   bytes.Buffer
	events map[string]int
}

func (e *ears) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.text.Write(p)
}

func (e *ears) observe(o consign.Observation) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.events[o.Event]++
	fmt.Fprintf(&e.text, "%+v\n", o)
	e.err(o.Err)
}

// err notes an error with everything that it wraps.
func (e *ears) err(err error) {
	for ; err != nil; err = errors.Unwrap(err) {
		fmt.Fprintf(&e.text, "%v %+v\n", err, err)
	}
}

// listen hears what is logged by whatever way until the test ends.
func (e *ears) listen(t *testing.T) {
	logger, output := slog.Default(), log.Writer()
	slog.SetDefault(slog.New(slog.NewTextHandler(e, &slog.HandlerOptions{Level: slog.LevelDebug - 8})))
	log.SetOutput(e)
	t.Cleanup(func() {
		slog.SetDefault(logger)
		log.SetOutput(output)
	})
}

// talkative outcomes say what nobody else may repeat.
var talkative = map[string]func() error{
	"accepted": func() error { return nil },
	"refused":  func() error { return consign.Refused(errors.New("answer: "+secret), 0) },
	"rejected": func() error { return consign.Rejected(fmt.Errorf("no such person: %s", secret)) },
	"not sent": func() error { return consign.NotSent(errors.New("dial " + secret)) },
	"unknown":  func() error { return errors.New("cut off after " + secret) },
	"panic":    func() error { panic("broken: " + secret) },
	"error":    func() error { panic(errors.New("broken: " + secret)) },
}

// What the engine does is told in ids, codes, durations and counts. Neither
// observations nor logs nor the errors of its calls repeat a payload, a recipient, a
// task, a subject, what a receiver answered, what user code panicked with, or what
// somebody's trigger in the database had to say.
func TestObservationsLogsAndErrorsHoldNoContent(t *testing.T) {
	e := &ears{}
	o := consign.Options{Observe: e.observe, Logger: slog.New(slog.NewTextHandler(e, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	for _, retry := range []consign.RetryOwner{consign.InProcess, consign.OnSchedule} {
		for name, outcome := range talkative {
			o.Channels = append(o.Channels, consign.Channel{
				Name: fmt.Sprint(name, retry), Retry: retry, Idempotent: true, MaxAttempts: 2, Waits: []time.Duration{time.Millisecond},
				Deliver: func(context.Context, consign.Message, consign.Attempt) error { return outcome() },
			})
		}
	}
	onEveryStore(t, o, func(t *testing.T, h *host) {
		e.text.Reset()
		e.events = map[string]int{}
		e.listen(t)
		var refs []consign.Ref
		for i, c := range o.Channels {
			m := consign.Message{
				Channel: c.Name, To: "https://" + secret + ".example", Task: fmt.Sprint(secret, i), Subject: "customer " + secret,
				Payload: map[string]any{"name": secret},
			}
			ref, err := h.outbox.EnqueueNow(t.Context(), m)
			if err != nil {
				t.Fatal(err)
			}
			refs = append(refs, ref)
			m.ID, m.Payload = ref, map[string]any{"name": "another " + secret}
			_, err = h.outbox.EnqueueNow(t.Context(), m)
			if !errors.Is(err, consign.ErrConflict) {
				t.Errorf("enqueued again with other content: %v", err)
			}
			e.err(err)
		}
		lift := h.refuseWrites(t)
		_, err := h.outbox.Visit(t.Context(), refs[0])
		if err == nil {
			t.Error("the database refuses every write, and the visit has no error")
		}
		e.err(err)
		_, err = h.outbox.Drain(t.Context(), 0)
		e.err(err)
		lift()
		for h.count(t, `SELECT count(*) FROM {s}delivery WHERE status < 3`) > 0 {
			results, err := h.outbox.Drain(t.Context(), 0)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(e, "%+v\n", results)
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		for _, event := range []string{"claim", "start", "settle", "error"} {
			if e.events[event] == 0 {
				t.Errorf("there was no %q: this has shown too little", event)
			}
		}
		for _, line := range strings.Split(e.text.String(), "\n") {
			if strings.Contains(strings.ToLower(line), secret) {
				t.Errorf("it says: %s", line)
			}
		}
	})
}

// refuseWrites has a trigger of somebody's refuse every change of a delivery, with
// content in its words, until lift is called.
func (h *host) refuseWrites(t *testing.T) (lift func()) {
	if strings.Contains(t.Name(), "sqlite") {
		h.exec(t, `CREATE TRIGGER no BEFORE UPDATE ON {s}delivery BEGIN SELECT RAISE(ABORT, 'not for `+secret+`'); END`)
		return func() { h.exec(t, `DROP TRIGGER no`) }
	}
	h.exec(t, `CREATE FUNCTION {s}no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not for `+secret+`'; END $$`)
	h.exec(t, `CREATE TRIGGER no BEFORE UPDATE ON {s}delivery FOR EACH ROW EXECUTE FUNCTION {s}no()`)
	return func() { h.exec(t, `DROP TRIGGER no ON {s}delivery`) }
}
