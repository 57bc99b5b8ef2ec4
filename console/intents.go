package console

import (
	"context"
	"net/url"
	"slices"
	"time"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/operator"
)

// pageSize is how many intents a page lists.
const pageSize = 50

// lookAt is how many rows a page looks at, at most: with a filter that fits few, it is
// soon there and says that there may be more.
const lookAt = 5000

// choice is one of a list to choose from.
type choice struct {
	Value, Text string
	Chosen      bool
}

// intentsData is what the list of intents shows.
type intentsData struct {
	Entries  []operator.Summary
	Next     string // query of the next page; empty: this is the last
	First    string // query of the first page; empty: this is it
	Kind     string
	Subject  string
	Statuses []choice
	Profiles []choice
	Codes    []choice
	Ages     []choice
	Kinds    []string // known ones, to choose from
	Filtered bool
	Short    bool // fewer than could be, and there may be more
	Wrong    string
}

var allStatuses = []consign.Status{
	consign.StatusPending, consign.StatusLeased, consign.StatusDelivering, consign.StatusReconciliationRequired,
	consign.StatusFailed, consign.StatusCancelled, consign.StatusDelivered, consign.StatusSucceeded,
}

// filterNames are the statuses as a filter names them: those of both profiles, in
// words that hold for each intent under them.
var filterNames = map[consign.Status]string{
	consign.StatusPending: "pending", consign.StatusLeased: "claimed (work)", consign.StatusDelivering: "being delivered or stranded",
	consign.StatusReconciliationRequired: "needs reconciliation (work)", consign.StatusFailed: "stopped (messages)",
	consign.StatusCancelled: "cancelled (work)", consign.StatusDelivered: "delivered (messages)", consign.StatusSucceeded: "delivered (work)",
}

// ages are how long ago an intent was created, as a filter names it.
var ages = []struct {
	value, text string
	within      time.Duration
	older       time.Duration
}{
	{"1h", "within 1 hour", time.Hour, 0}, {"24h", "within 24 hours", 24 * time.Hour, 0},
	{"7d", "within 7 days", 7 * 24 * time.Hour, 0}, {"30d", "within 30 days", 30 * 24 * time.Hour, 0},
	{"older-1d", "older than 1 day", 0, 24 * time.Hour}, {"older-7d", "older than 7 days", 0, 7 * 24 * time.Hour},
	{"older-30d", "older than 30 days", 0, 30 * 24 * time.Hour},
}

func (c *Console) intents(ctx context.Context, v *visit) (reply, error) {
	q := v.r.URL.Query()
	if ref, err := consign.ParseRef(q.Get("ref")); err == nil {
		return reply{to: "/intents/" + ref.String()}, nil
	}
	f, d := c.filter(q)
	page, err := c.operator.List(ctx, f)
	status := 0
	switch {
	case q.Get("ref") != "":
		d.Wrong, status = "That is no ref: 36 characters, such as 0190a2b4-….", 422
	case err != nil && isInvalid(err):
		d.Wrong, status = said(err), 422
	case err != nil:
		return reply{}, err
	}
	d.Entries = page.Entries
	d.Short = page.Next != "" && len(page.Entries) < pageSize
	again := url.Values{}
	for _, name := range []string{"status", "profile", "kind", "code", "subject", "age"} {
		if s := q.Get(name); s != "" {
			again.Set(name, s)
			d.Filtered = true
		}
	}
	if f.After != "" {
		d.First = "?" + again.Encode()
	}
	if page.Next != "" {
		again.Set("after", page.Next)
		d.Next = "?" + again.Encode()
	}
	if s := c.shared.peek(); s != nil {
		for _, k := range s.kinds() {
			if !slices.Contains(d.Kinds, k.Kind) {
				d.Kinds = append(d.Kinds, k.Kind)
			}
		}
	}
	return reply{status: status, page: "intents", title: "Intents", data: d}, nil
}

// filter reads the filter, and says how it is shown.
func (c *Console) filter(q url.Values) (operator.Filter, *intentsData) {
	f := operator.Filter{
		Profile: consign.Profile(q.Get("profile")), Kind: q.Get("kind"), Code: consign.Code(q.Get("code")), Subject: q.Get("subject"),
		Limit: pageSize, Look: lookAt, After: q.Get("after"),
	}
	d := &intentsData{Kind: f.Kind, Subject: f.Subject}
	if s := q.Get("status"); s != "" {
		f.Status = []consign.Status{consign.Status(s)}
	}
	for _, s := range allStatuses {
		d.Statuses = append(d.Statuses, choice{string(s), filterNames[s], q.Get("status") == string(s)})
	}
	for _, p := range []consign.Profile{consign.ProfileWork, consign.ProfileMessage} {
		d.Profiles = append(d.Profiles, choice{string(p), string(p), f.Profile == p})
	}
	for _, code := range operator.Codes() {
		d.Codes = append(d.Codes, choice{string(code), string(code), f.Code == code})
	}
	for _, a := range ages {
		chosen := q.Get("age") == a.value
		d.Ages = append(d.Ages, choice{a.value, a.text, chosen})
		switch {
		case chosen && a.within > 0:
			f.Since = c.o.now().Add(-a.within)
		case chosen:
			f.Before = c.o.now().Add(-a.older)
		}
	}
	return f, d
}
