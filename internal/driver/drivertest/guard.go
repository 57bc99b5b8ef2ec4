package drivertest

import (
	"maps"
	"strings"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

func guardTests[TX any]() []test[TX] {
	return []test[TX]{
		{"an intent is never updated", "the database itself refuses to change content", intentImmutable[TX]},
		{"a delivery never contradicts the rules", "the database itself refuses an impossible state", deliveryChecked[TX]},
		{"an intent has its shape", "the database itself refuses what no enqueue may write", intentChecked[TX]},
		{"a refused row fails the whole write", "nothing of a batch is written where one row is impossible", refusedFailsAll[TX]},
		{"evidence has its shape", "a log row names an attempt", attemptChecked[TX]},
	}
}

func intentImmutable[TX any](b *bench[TX]) {
	m, w := b.add(b.message("mail", about("customer:1"))), b.add(b.work("triaged"))
	before := b.everything()
	for column, value := range map[string]any{
		"payload": `{"changed":true}`, "payload_digest": make([]byte, 32), "delivery_key": driver.NewID(), "kind": "sms",
		"task_index": 9, "subject": nil, "trace": "t",
	} {
		for _, ref := range []driver.ID{m, w} {
			b.that(b.Set(b.ctx, "intent", ref, map[string]any{column: value}) != nil, "%s was changed", column)
		}
	}
	b.that(b.everything() == before, "an intent was changed")
}

func deliveryChecked[TX any](b *bench[TX]) {
	now, id := b.clock(), driver.NewID()
	pending, leased := b.add(b.message("mail")), b.add(b.message("mail"))
	b.take(leased)
	started, loop := b.inFlight(b.message("mail")), b.inFlight(b.message("loop", under(looped)))
	ended := b.inFlight(b.message("mail"))
	b.apply(ended, is(lifecycle.EvSucceeded))
	work := b.add(b.work("triaged"))
	cancelled := b.add(b.work("triaged"))
	b.apply(cancelled, is(lifecycle.EvCancel))
	erased := b.add(b.message("mail", about("customer:1")))
	b.erase("customer:1")
	before := b.everything()
	for what, c := range map[string]struct {
		ref driver.ID
		set map[string]any
	}{
		"leased without an owner":           {pending, map[string]any{"status": 1}},
		"pending with an owner":             {pending, map[string]any{"owner": id}},
		"pending with a lease":              {pending, map[string]any{"lease_until": now}},
		"pending and never due":             {pending, map[string]any{"due_at": nil}},
		"pending and in flight":             {pending, map[string]any{"in_flight": true}},
		"an unknown status":                 {pending, map[string]any{"status": 7}},
		"an unknown profile":                {pending, map[string]any{"profile": 3}},
		"an unknown retry owner":            {pending, map[string]any{"retry": 3}},
		"a contract without a retry owner":  {pending, map[string]any{"retry": 0}},
		"a negative generation":             {pending, map[string]any{"generation": -1}},
		"a negative revision":               {pending, map[string]any{"revision": -1}},
		"negative attempts":                 {pending, map[string]any{"attempts": -1}},
		"negative crashes":                  {pending, map[string]any{"crashes": -1}},
		"more attempts than allowed":        {pending, map[string]any{"attempts": 4}},
		"a message that is cancelled":       {pending, map[string]any{"status": 5, "due_at": nil}},
		"a message to be reconciled":        {pending, map[string]any{"status": 6, "due_at": nil}},
		"ended and still due":               {pending, map[string]any{"status": 4}},
		"a code that is not in the set":     {pending, map[string]any{"code": "WHATEVER"}},
		"a code that is never stored":       {pending, map[string]any{"code": "FENCED"}},
		"an owner without a lease":          {leased, map[string]any{"lease_until": nil}},
		"a lease without an owner":          {leased, map[string]any{"owner": nil}},
		"started, scheduled, not in flight": {started, map[string]any{"in_flight": false}},
		"started, scheduled, never due":     {started, map[string]any{"due_at": nil}},
		"a started loop that is due":        {loop, map[string]any{"due_at": now}},
		"ended and leased":                  {ended, map[string]any{"lease_until": now}},
		"ended and due":                     {ended, map[string]any{"due_at": now}},
		"succeeded and uncertain":           {ended, map[string]any{"uncertain": true}},
		"cancelled and uncertain":           {cancelled, map[string]any{"uncertain": true}},
		"work that failed":                  {work, map[string]any{"status": 4, "due_at": nil}},
		"work that a process owns":          {work, map[string]any{"retry": 1}},
		"erased and due":                    {erased, map[string]any{"due_at": now}},
		"erased and owned":                  {erased, map[string]any{"owner": id}},
		"erased with a text":                {erased, map[string]any{"last_error": "text"}},
		"erased and in review":              {erased, map[string]any{"review_at": now}},
		"erased and due again":              {erased, map[string]any{"erased_at": nil}},
	} {
		b.that(b.Set(b.ctx, "delivery", c.ref, maps.Clone(c.set)) != nil, "stored: %s", what)
		b.that(b.everything() == before, "%s: rows changed", what)
	}
	b.ok("an allowed change", b.Set(b.ctx, "delivery", pending, map[string]any{"crashes": 2, "uncertain": true}))
}

func intentChecked[TX any](b *bench[TX]) {
	long := func(n int) string { return strings.Repeat("x", n) }
	b.insert(
		b.work(long(128), func(n *driver.New) { n.WorkKey = long(128) }),
		b.work("triaged", func(n *driver.New) { n.Payload = []byte(`"` + long(4094) + `"`) }),
		b.message(long(128), func(n *driver.New) { n.Payload = []byte(`"` + long(1<<20) + `"`) }),
	)
	before := b.everything()
	for what, n := range map[string]driver.New{
		"a kind of 129 bytes":            b.work(long(129)),
		"no kind":                        b.message(""),
		"a work key of 129 bytes":        b.work("triaged", func(n *driver.New) { n.WorkKey = long(129) }),
		"no work key":                    b.work("triaged", func(n *driver.New) { n.WorkKey = "" }),
		"no run":                         b.work("triaged", func(n *driver.New) { n.Run = driver.ID{} }),
		"a work payload of 4097 bytes":   b.work("triaged", func(n *driver.New) { n.Payload = []byte(`"` + long(4095) + `"`) }),
		"work that a process owns":       b.work("triaged", under(looped)),
		"work without a contract":        b.work("triaged", under(lifecycle.Contract{})),
		"work in a task":                 b.work("triaged", task("a", 0)),
		"a link to nothing":              b.message("mail", func(n *driver.New) { n.Link = driver.Reissue }),
		"a predecessor without a link":   b.message("mail", func(n *driver.New) { n.Predecessor = driver.NewID() }),
		"another's key without a link":   b.message("mail", func(n *driver.New) { n.Key = driver.NewID() }),
		"a reissue under another's key":  b.message("mail", successor(driver.NewID(), driver.Reissue), func(n *driver.New) { n.Key = driver.NewID() }),
		"a redelivery under its own key": b.message("mail", successor(driver.NewID(), driver.Redelivery), func(n *driver.New) { n.Key = n.Ref }),
		"an unknown profile":             b.message("mail", func(n *driver.New) { n.Profile = 3 }),
		"an unknown link":                b.message("mail", func(n *driver.New) { n.Predecessor, n.Link = driver.NewID(), 3 }),
		"a message with a retry owner 3": b.message("mail", func(n *driver.New) { n.Contract.Retry = 3 }),
	} {
		n.Given = false
		err := b.tryInsert(b.message("mail"), n)
		b.that(err != nil, "stored: %s", what)
		b.that(b.everything() == before, "%s: rows changed", what)
	}
}

func refusedFailsAll[TX any](b *bench[TX]) {
	refs := b.insert(b.message("mail"), b.message("mail"))
	good, bad := b.decide(refs[0], is(lifecycle.EvCancel)), b.decide(refs[1], is(lifecycle.EvCancel))
	bad.Set.Due = lifecycle.Keep // an end that would stay in the due index
	before := b.everything()
	held, err := b.Bound.Apply(b.ctx, []lifecycle.Transition{good, bad})
	b.that(err != nil, "an impossible row was stored: %v", held)
	b.that(b.everything() == before, "half of a batch was written")
	b.that(b.compareAndSet(good), "the possible one does not hold alone")
}

func attemptChecked[TX any](b *bench[TX]) {
	ref := b.inFlight(b.message("mail"))
	before := b.everything()
	for what, change := range map[string]func(l *driver.Logged){
		"no outcome":         func(l *driver.Logged) { l.Outcome = 0 },
		"an unknown outcome": func(l *driver.Logged) { l.Outcome = 7 },
		"no generation":      func(l *driver.Logged) { l.Generation = 0 },
		"no number":          func(l *driver.Logged) { l.Number = 0 },
	} {
		l := late(ref, lifecycle.Unknown)
		change(&l)
		good := late(ref, lifecycle.Unknown)
		b.that(b.Bound.Append(b.ctx, []driver.Logged{good, l}) != nil, "stored: %s", what)
		b.that(b.everything() == before, "%s: rows changed", what)
	}
}
