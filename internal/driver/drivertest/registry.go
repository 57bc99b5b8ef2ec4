package drivertest

import (
	"fmt"
	"slices"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

func registryTests[TX any]() []test[TX] {
	return []test[TX]{
		{"tells what live programs serve", "no program stops what another one serves", registryServes[TX]},
		{"renews an entry", "a heartbeat keeps an entry and replaces what it says", registryRenews[TX]},
		{"forgets the dead", "a program that vanished does not hold intents back for ever", registryForgets[TX]},
	}
}

// registry is the driver as the register of programs.
func (b *bench[TX]) registry() driver.Registry {
	b.t.Helper()
	r, ok := any(b.Bound).(driver.Registry)
	b.that(ok, "the driver is no driver.Registry")
	return r
}

// serving returns what is served within a minute, sorted.
func (b *bench[TX]) serving() []string {
	b.t.Helper()
	serves, err := b.registry().Serving(b.ctx, time.Minute)
	b.ok("serving", err)
	var names []string
	for _, s := range serves {
		names = append(names, fmt.Sprintf("%s %s %s %x %v", s.Profile, s.Kind, s.Version, s.Fingerprint[:2], s.Upgrade))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

var (
	mailer  = driver.Serves{Profile: lifecycle.Message, Kind: "mail"}
	triager = driver.Serves{Profile: lifecycle.Work, Kind: "triaged", Version: "2", Fingerprint: [32]byte{2}}
	older   = driver.Serves{Profile: lifecycle.Work, Kind: "triaged", Version: "1", Upgrade: true}
)

func registryServes[TX any](b *bench[TX]) {
	b.that(len(b.serving()) == 0, "served before anybody came")
	first := driver.Program{ID: driver.NewID(), Name: "web 1", Serves: []driver.Serves{mailer, triager, older}}
	second := driver.Program{ID: driver.NewID(), Name: "web 2", Serves: []driver.Serves{mailer}}
	nothing := driver.Program{ID: driver.NewID(), Name: "enqueues only"}
	for _, p := range []driver.Program{first, second, nothing} {
		b.ok("register", b.registry().Register(b.ctx, p))
	}
	want := []string{"message mail  0000 false", "work triaged 1 0000 true", "work triaged 2 0200 false"}
	b.that(slices.Equal(b.serving(), want), "served %q, want %q", b.serving(), want)
	b.ok("unregister", b.registry().Unregister(b.ctx, first.ID))
	b.ok("unregister again", b.registry().Unregister(b.ctx, first.ID))
	b.that(slices.Equal(b.serving(), want[:1]), "served %q, want %q", b.serving(), want[:1])
	b.that(b.count("program") == 2 && b.count("program_route") == 1, "%d programs, %d routes", b.count("program"), b.count("program_route"))
}

func registryRenews[TX any](b *bench[TX]) {
	p := driver.Program{ID: driver.NewID(), Name: "web", Serves: []driver.Serves{mailer, older}}
	b.ok("register", b.registry().Register(b.ctx, p))
	b.shift(50 * time.Second)
	p.Serves = []driver.Serves{triager, older}
	b.ok("register", b.registry().Register(b.ctx, p))
	b.shift(30 * time.Second)
	want := []string{"work triaged 1 0000 true", "work triaged 2 0200 false"}
	b.that(slices.Equal(b.serving(), want), "served %q, want %q", b.serving(), want)
	b.that(b.count("program") == 1, "%d programs", b.count("program"))
}

func registryForgets[TX any](b *bench[TX]) {
	b.ok("register", b.registry().Register(b.ctx, driver.Program{ID: driver.NewID(), Name: "gone", Serves: []driver.Serves{mailer}}))
	b.shift(2 * time.Minute)
	b.that(len(b.serving()) == 0, "a program without a heartbeat serves %q", b.serving())
	b.that(b.count("program") == 1, "forgotten at once")
	b.shift(25 * time.Hour)
	b.ok("register", b.registry().Register(b.ctx, driver.Program{ID: driver.NewID(), Name: "new", Serves: []driver.Serves{mailer}}))
	b.that(b.count("program") == 1 && b.count("program_route") == 1, "%d programs, %d routes", b.count("program"), b.count("program_route"))
}
