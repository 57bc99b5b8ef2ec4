package operator

import (
	"context"
	"fmt"
	"time"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// Pause is a kind or channel that nobody claims until it is resumed.
type Pause struct {
	Profile consign.Profile
	Kind    string
	At      time.Time
	By      string
	Why     string
}

// Pause keeps every program from claiming intents of a kind or channel, retries
// included, until it is resumed. Running programs heed it within two seconds; what they
// hold by then goes on to its end. Deadlines go on, too; what is paused is not stopped
// for being served by nobody.
//
// Errors: consign.ErrInvalid, ErrChanged where it is paused already, and the
// database's own.
func (o *Operator) Pause(ctx context.Context, by By, p consign.Profile, kind string) error {
	return o.setPause(ctx, "pause", by, p, kind)
}

// Resume ends a pause. Running programs heed it within two seconds of their next look
// at the database.
//
// Errors: consign.ErrInvalid, ErrChanged where it is not paused, and the database's
// own.
func (o *Operator) Resume(ctx context.Context, by By, p consign.Profile, kind string) error {
	return o.setPause(ctx, "resume", by, p, kind)
}

func (o *Operator) setPause(ctx context.Context, op string, by By, p consign.Profile, kind string) error {
	var fs faults
	fs.by(by)
	profile := fs.profile(p, true)
	fs.kind(kind, 1)
	if err := fs.err(op); err != nil {
		return err
	}
	if err := o.ready(ctx, op); err != nil {
		return err
	}
	on := op == "pause"
	row := &driver.Pause{Profile: profile, Kind: kind, By: by.Who, Reason: by.Why}
	told := func(paused bool) string { return told{Profile: string(p), Kind: kind, Paused: paused}.text() }
	a := driver.Action{Audit: driver.Audited{By: by.Who, Action: op, Reason: by.Why, Before: told(!on), After: told(on)}}
	if on {
		a.Pause = row
	} else {
		a.Resume = row
	}
	held, err := o.desk.Act(ctx, &a)
	if err != nil || held {
		return failure(op, err)
	}
	if now, found := o.pauseOf(ctx, profile, kind); on && found {
		return changed(op, fmt.Sprintf("%s has paused it at %s", now.By, now.At.UTC().Format(time.RFC3339)))
	}
	if on {
		return changed(op, "it was paused already")
	}
	return changed(op, "it is not paused")
}

func (o *Operator) pauseOf(ctx context.Context, p lifecycle.Profile, kind string) (driver.Pause, bool) {
	list, err := o.desk.Pauses(ctx)
	for _, pause := range list {
		if err == nil && pause.Profile == p && pause.Kind == kind {
			return pause, true
		}
	}
	return driver.Pause{}, false
}

// Pauses lists what is paused, by profile and kind.
func (o *Operator) Pauses(ctx context.Context) ([]Pause, error) {
	const op = "pauses"
	if err := o.ready(ctx, op); err != nil {
		return nil, err
	}
	list, err := o.desk.Pauses(ctx)
	var out []Pause
	for _, p := range list {
		out = append(out, Pause{Profile: profileOf(p.Profile), Kind: p.Kind, At: p.At, By: p.By, Why: p.Reason})
	}
	return out, failure(op, err)
}
