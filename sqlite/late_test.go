package sqlite_test

import (
	"context"
	sqldriver "database/sql/driver"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
	"github.com/consign-go/consign/sqlite"
	"github.com/consign-go/consign/sqlite/internal/suite"
)

// TestLateWriteChangesNothing: an owner's settle is held up by a foreign write lock,
// behind which another owner settles. When the lock is released the late one
// arrives, whether its caller still waits for it or has given up and somebody sends
// it again, and the row stays as it is, byte for byte.
func TestLateWriteChangesNothing(t *testing.T) {
	for _, c := range []struct {
		name  string
		event lifecycle.EventKind
		gives bool // the caller gives up
	}{
		{"a settle whose caller waits", lifecycle.EvSucceeded, false},
		{"a settle whose caller gave up", lifecycle.EvSucceeded, true},
		{"a failure whose caller waits", lifecycle.EvUnknown, false},
		{"a failure whose caller gave up", lifecycle.EvUnknown, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "late.db")
			slow, meets := newMeeting(t, path, "UPDATE consign_setting")
			quick, commits := newMeeting(t, path, "COMMIT")
			a, b := slow.Driver(driver.Key{}), quick.Driver(driver.Key{})
			ref := store(t, b, message())[0]
			claim(t, b, asking(1))
			apply(t, b, lifecycle.EvStart, ref)
			late := decided(t, b, ref, c.event)
			takeAway(t, b, ref) // the lease is over; another owner takes it and starts
			settle := decided(t, b, ref, lifecycle.EvRejected)

			second := make(chan error)
			commits.arm()
			go func() {
				held, err := b.Apply(context.WithoutCancel(t.Context()), []lifecycle.Transition{settle})
				if err == nil && !held[0] {
					err = errors.New("the second owner's settle did not hold")
				}
				second <- err
			}()
			<-commits.reached // it has the lock, and its row is written
			ctx, giveUp := context.WithCancel(t.Context())
			defer giveUp()
			meets.arm()
			first := make(chan error)
			go func() {
				held, err := a.Apply(ctx, []lifecycle.Transition{late})
				if err == nil && held[0] {
					err = errors.New("a late write held")
				}
				first <- err
			}()
			<-meets.reached // it is on its way to the lock
			close(meets.goOn)
			if c.gives {
				giveUp()
				if err := <-first; !errors.Is(err, context.Canceled) {
					t.Errorf("the caller who gave up: %v", err)
				}
			}
			close(commits.goOn)
			if err := <-second; err != nil {
				t.Fatal(err)
			}
			before := deliveries(t, b, ref)
			if !c.gives {
				if err := <-first; err != nil {
					t.Error(err)
				}
			}
			held, err := a.Apply(t.Context(), []lifecycle.Transition{late}) // and sent again
			if err != nil || held[0] {
				t.Errorf("sent again: %v, %v", held, err)
			}
			if after := deliveries(t, b, ref); after != before {
				t.Errorf("the row is\n%s\nand was\n%s", after, before)
			}
			log, err := b.History(t.Context(), ref)
			if err != nil || len(log) != 2 { // the crash of the first owner and the second's rejection
				t.Errorf("log %+v, %v", log, err)
			}
		})
	}
}

// meeting stops the next statement that begins with a text, once it is armed.
type meeting struct {
	text          string
	armed         bool
	reached, goOn chan struct{}
}

func newMeeting(t *testing.T, path, text string) (*sqlite.Store, *meeting) {
	m := &meeting{text: text}
	db := modernc.OpenHooked(t, path, 1, func(query string, _ []sqldriver.NamedValue) error {
		if m.armed && strings.HasPrefix(query, m.text) {
			m.armed = false
			close(m.reached)
			<-m.goOn
		}
		return nil
	})
	return suite.Migrated(t, db, ""), m
}

func (m *meeting) arm() {
	m.reached, m.goOn = make(chan struct{}), make(chan struct{})
	m.armed = true
}
