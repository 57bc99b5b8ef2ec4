package dispatch

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// pause enters or removes the pause of k.
func (r *rig) pause(k kind, on bool) {
	r.Helper()
	p := &driver.Pause{Profile: k.profile, Kind: k.name, By: "ann"}
	a := driver.Action{Audit: driver.Audited{By: "ann", Action: "pause"}, Pause: p}
	if !on {
		a.Pause, a.Resume = nil, p
	}
	if held, err := r.store.Act(context.Background(), &a); err != nil || !held {
		r.Fatal(held, err)
	}
}

// heeding is an engine that asks what is paused.
func (r *rig) heeding(served ...*Served) *Engine {
	return New(Config{Store: r.store, Registry: r.store, Pauses: r.store, Served: served, Workers: 16, Grace: 20 * time.Second})
}

// A running program claims nothing of what is paused from two seconds later on, and
// goes on with everything else; it takes it up again once it is resumed.
func TestPauseIsHeededByRunningPrograms(t *testing.T) {
	inBubble(t, func(r *rig) {
		mail, work := kind{"mail", lifecycle.Message, scheduled}, kind{"mail", lifecycle.Work, scheduled}
		e := r.heeding(r.served(mail), r.served(work))
		stop := r.serve(e)
		defer stop()
		r.settled(time.Minute, r.enqueue(mail, 3)...)
		r.pause(mail, true)
		time.Sleep(2 * time.Second)
		held := r.enqueue(mail, 3)
		r.settled(time.Minute, r.enqueue(work, 3)...)
		time.Sleep(10 * time.Minute)
		for _, ref := range held {
			if got := r.record(ref).State; got.Status != lifecycle.Pending || got.Generation != 0 {
				r.Errorf("paused, and yet %s at generation %d", got.Status, got.Generation)
			}
		}
		r.pause(mail, false)
		r.settled(10*time.Second, held...)
	})
}

// Whatever else drives a delivery heeds a pause too.
func TestPauseIsHeededByVisitDrainAndScan(t *testing.T) {
	inBubble(t, func(r *rig) {
		mail := kind{"mail", lifecycle.Message, scheduled}
		e, ctx := r.heeding(r.served(mail)), context.Background()
		ref := r.enqueue(mail, 1)[0]
		r.pause(mail, true)
		if got, found, err := e.Visit(ctx, ref); err != nil || !found || got.Status != lifecycle.Pending {
			r.Errorf("visit: %+v, %v, %v", got, found, err)
		}
		if got, err := e.Drain(ctx, 0); err != nil || len(got) != 0 {
			r.Errorf("drain: %+v, %v", got, err)
		}
		n, err := e.Scan(ctx, 0, func(context.Context, []driver.ID) error { return nil })
		if err != nil || n != 0 {
			r.Errorf("scan: %d, %v", n, err)
		}
		r.pause(mail, false)
		time.Sleep(2 * time.Second)
		if got, _, err := e.Visit(ctx, ref); err != nil || got.Status != lifecycle.Succeeded {
			r.Errorf("visit after resume: %+v, %v", got, err)
		}
	})
}

// What is paused is not stopped because nobody serves it: a person may take its
// program away to mend it. The grace period begins when it is resumed.
func TestPausedIntentsAreNotUnserved(t *testing.T) {
	inBubble(t, func(r *rig) {
		mail := kind{"mail", lifecycle.Message, scheduled}
		ref := r.enqueue(mail, 1)[0]
		r.pause(mail, true)
		stop := r.serve(r.heeding())
		defer stop()
		time.Sleep(time.Hour)
		r.is(ref, lifecycle.Pending, "", false)
		r.pause(mail, false)
		time.Sleep(10 * time.Minute)
		r.is(ref, lifecycle.Pending, "", false)
		time.Sleep(10 * time.Minute)
		r.is(ref, lifecycle.Failed, lifecycle.ChannelMissing, false)
	})
}

// deaf is a store that does not say what is paused.
type deaf struct{ fails bool }

func (d *deaf) Pauses(context.Context) ([]driver.Pause, error) {
	if d.fails {
		return nil, errors.New("not now")
	}
	return []driver.Pause{{Profile: lifecycle.Message, Kind: "chat"}}, nil
}

// Nothing is claimed before it is known what is paused; later on what was known
// holds until it can be read again.
func TestPausesThatCannotBeRead(t *testing.T) {
	inBubble(t, func(r *rig) {
		mail, chat := kind{"mail", lifecycle.Message, scheduled}, kind{"chat", lifecycle.Message, scheduled}
		pauses := &deaf{fails: true}
		e := New(Config{Store: r.store, Pauses: pauses, Served: []*Served{r.served(mail), r.served(chat)}})
		ctx, first := context.Background(), r.enqueue(mail, 1)[0]
		if _, _, err := e.Visit(ctx, first); err == nil {
			r.Error("visited without knowing what is paused")
		}
		r.is(first, lifecycle.Pending, "", false)
		pauses.fails = false
		if _, err := e.Drain(ctx, 0); err != nil {
			r.Error(err)
		}
		r.is(first, lifecycle.Succeeded, "", false)
		pauses.fails = true
		time.Sleep(time.Minute)
		second, held := r.enqueue(mail, 1)[0], r.enqueue(chat, 1)[0]
		if _, err := e.Drain(ctx, 0); err != nil {
			r.Error(err)
		}
		r.is(second, lifecycle.Succeeded, "", false)
		r.is(held, lifecycle.Pending, "", false)
	})
}
