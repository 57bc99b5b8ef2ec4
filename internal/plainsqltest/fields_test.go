//go:build !race

package plainsqltest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/internal/driver/memory"
)

// TestFieldsAreCheckedAsInGo: each field, at its limits and beyond them, is taken and
// refused by the database exactly as by the Go call.
func TestFieldsAreCheckedAsInGo(t *testing.T) {
	ob, err := consign.New(memory.New(), nil)
	if err != nil {
		t.Fatal(err)
	}
	long := func(n int) string { return strings.Repeat("x", n) }
	texts := []string{
		"", "x", " ", "~", "geheim\n", "\x1f", "\x7f", "\u0080", "\u009f", "\u00a0", "é", "\u2028", "😀", "-", "a]b", "a[b", "^", "a'b", `a"b`,
		long(127), long(128), long(129), "é" + long(126), "é" + long(127), long(2048), long(2049), "é" + long(2047),
	}
	for name, set := range map[string]func(m *consign.Message, r *row, v string){
		"channel":   func(m *consign.Message, r *row, v string) { m.Channel, r.channel = v, v },
		"recipient": func(m *consign.Message, r *row, v string) { m.To, r.recipient = v, v },
		"task":      func(m *consign.Message, r *row, v string) { m.Task, r.task = v, v },
		"subject":   func(m *consign.Message, r *row, v string) { m.Subject, r.subject = v, v },
	} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, b *base) {
				for _, v := range texts {
					m, r := consign.Message{Channel: "crm", Payload: map[string]any{}}, note()
					set(&m, &r, v)
					_, want := ob.EnqueueNow(t.Context(), m)
					agree(t, b, r, want, name+" "+v)
				}
			})
		})
	}
	t.Run("index", func(t *testing.T) {
		onBoth(t, func(t *testing.T, b *base) {
			for _, v := range []int{0, 1, 1<<31 - 1, -1, -1 << 31} {
				_, want := ob.EnqueueNow(t.Context(), consign.Message{Channel: "crm", Payload: map[string]any{}, Task: "t", Index: v})
				agree(t, b, note(func(r *row) { r.task, r.index = "t", v }), want, "index")
			}
		})
	})
	t.Run("not before", func(t *testing.T) {
		onBoth(t, func(t *testing.T, b *base) {
			for _, year := range []int{1, 1969, 1970, 2030, 9999} {
				at := time.Date(year, 7, 1, 12, 0, 0, 0, time.UTC)
				_, want := ob.EnqueueNow(t.Context(), consign.Message{Channel: "crm", Payload: map[string]any{}, NotBefore: at})
				agree(t, b, note(func(r *row) { r.notBefore = at.Format(time.RFC3339) }), want, at.String())
			}
		})
	})
}

// agree calls with a row, and wants it taken where Go took it.
func agree(t *testing.T, b *base, r row, want error, what string) {
	t.Helper()
	if want != nil && !errors.Is(want, consign.ErrInvalid) {
		t.Fatal(want)
	}
	err := b.try(t, r)
	if got := refusal(t, err); got == "invalid" != (want != nil) {
		t.Errorf("%.40q: %v, in Go %v", what, err, want)
	}
	if err != nil && strings.Contains(err.Error(), "geheim") {
		t.Errorf("the error tells content: %v", err)
	}
}

// TestWhatSQLCanSayAndGoCannotIsRefused: NULL where something must be, other types,
// other versions of the contract, bytes that are no text.
func TestWhatSQLCanSayAndGoCannotIsRefused(t *testing.T) {
	both := map[string]row{
		"no contract":      note(func(r *row) { r.contract = nil }),
		"contract 0":       note(func(r *row) { r.contract = 0 }),
		"contract 2":       note(func(r *row) { r.contract = 2 }),
		"no channel":       note(func(r *row) { r.channel = nil }),
		"the zero id":      note(func(r *row) { r.id = "00000000-0000-0000-0000-000000000000" }),
		"a payload of 1":   note(func(r *row) { r.payload = "1" }),
		"a null payload":   note(func(r *row) { r.payload = "null" }),
		"no payload":       note(func(r *row) { r.payload = nil }),
		"an array payload": note(func(r *row) { r.payload = "[{}]" }),
	}
	lite := map[string]row{
		"contract as text":      note(func(r *row) { r.contract = "1" }),
		"half a contract":       note(func(r *row) { r.contract = 1.5 }),
		"a number for channel":  note(func(r *row) { r.channel = 7 }),
		"bytes for channel":     note(func(r *row) { r.channel = []byte("crm") }),
		"NUL in channel":        note(func(r *row) { r.channel = "crm\x00" }),
		"bytes for recipient":   note(func(r *row) { r.recipient = []byte("x") }),
		"NUL in recipient":      note(func(r *row) { r.recipient = "x\x00y" }),
		"NUL in task":           note(func(r *row) { r.task = "x\x00" }),
		"NUL in subject":        note(func(r *row) { r.subject = "\x00" }),
		"NUL in payload":        note(func(r *row) { r.payload = "{}\x00" }),
		"broken recipient":      note(func(r *row) { r.recipient = "\xc3" }),
		"broken task":           note(func(r *row) { r.task = "a\xff" }),
		"broken subject":        note(func(r *row) { r.subject = "\xed\xa0\x80" }),
		"two broken halves":     note(func(r *row) { r.recipient, r.task = "\xc3", "\xa9" }),
		"an overlong slash":     note(func(r *row) { r.payload = "{\"a\":\"\xc0\xaf\"}" }),
		"an overlong of three":  note(func(r *row) { r.payload = "{\"a\":\"\xe0\x80\xaf\"}" }),
		"a surrogate as bytes":  note(func(r *row) { r.payload = "{\"a\":\"\xed\xa0\x80\"}" }),
		"beyond U+10FFFF":       note(func(r *row) { r.payload = "{\"a\":\"\xf4\x90\x80\x80\"}" }),
		"a lead alone":          note(func(r *row) { r.payload = "{\"a\":\"\xf0\"}" }),
		"a tail alone":          note(func(r *row) { r.payload = "{\"a\":\"\x80\"}" }),
		"a broken name":         note(func(r *row) { r.payload = "{\"\xe2\x82\":1}" }),
		"bytes for payload":     note(func(r *row) { r.payload = []byte(`{}`) }),
		"text for index":        note(func(r *row) { r.index = "1" }),
		"half an index":         note(func(r *row) { r.index = 0.5 }),
		"a large index":         note(func(r *row) { r.index = 1 << 31 }),
		"an id of 15 bytes":     note(func(r *row) { r.id = make([]byte, 15) }),
		"an id of zeros":        note(func(r *row) { r.id = make([]byte, 16) }),
		"an id without hyphens": note(func(r *row) { r.id = strings.Repeat("a", 32) }),
		"hyphens elsewhere":     note(func(r *row) { r.id = "0198f000-0000-7000-800-00000000000-1" }),
		"an id that is no hex":  note(func(r *row) { r.id = "0198f000-0000-7000-8000-00000000000g" }),
		"a number for id":       note(func(r *row) { r.id = 7 }),
		"a number for a time":   note(func(r *row) { r.notBefore = 1893456000 }),
		"a time without a zone": note(func(r *row) { r.notBefore = "2030-01-01T00:00:00" }),
		"no time":               note(func(r *row) { r.notBefore = "tomorrow" }),
		"a date":                note(func(r *row) { r.notBefore = "2030-01-01" }),
		"a month 13":            note(func(r *row) { r.notBefore = "2030-13-01T00:00:00Z" }),
		"32 kB of payload":      note(func(r *row) { r.payload = "{}" + strings.Repeat(" ", 32<<10) }),
	}
	onBoth(t, func(t *testing.T, b *base) {
		cases := []map[string]row{both}
		if !b.answers {
			cases = append(cases, lite)
		}
		for _, group := range cases {
			for what, r := range group {
				if err := b.try(t, r); refusal(t, err) != "invalid" {
					t.Errorf("%s: %v", what, err)
				}
			}
		}
		for _, table := range []string{"intent", "delivery"} {
			if n := one[int](t, b, "SELECT count(*) FROM {s}"+table); n != 0 {
				t.Errorf("%d rows in %s", n, table)
			}
		}
	})
	b := onPostgres(t)
	for _, r := range []row{
		note(func(r *row) { r.notBefore = "infinity" }), note(func(r *row) { r.notBefore = "-infinity" }),
		note(func(r *row) { r.notBefore = "10000-01-01T00:00:00Z" }),
	} {
		if err := b.try(t, r); refusal(t, err) != "invalid" {
			t.Errorf("not before %v: %v", r.notBefore, err)
		}
	}
}

// TestEveryFaultIsNamed: PostgreSQL names all of them at once, SQLite the first.
func TestEveryFaultIsNamed(t *testing.T) {
	bad := row{contract: 1, channel: "", payload: "[]", recipient: "a\nb", id: "00000000-0000-0000-0000-000000000000", task: strings.Repeat("é", 65),
		index: -1, subject: "\u0085", notBefore: "1969-12-31T00:00:00Z"}
	err := onPostgres(t).try(t, bad)
	for _, want := range []string{
		"channel 0 bytes, limit 1 to 128", "recipient contains a control character", "task 130 bytes, limit 0 to 128",
		"subject contains a control character", "task_index -1, limit 0 to 2147483647", "id is the zero UUID", "not_before year, limit 1970 to 9999",
		"payload must be an object",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing: %v", want, err)
		}
	}
	if err := onSQLite(t).try(t, bad); err == nil || !strings.Contains(err.Error(), "consign: enqueue: channel limit 1 to 128 bytes") {
		t.Errorf("got %v", err)
	}
}

// TestDriversNumbersAreTaken: some languages have no whole numbers.
func TestDriversNumbersAreTaken(t *testing.T) {
	b := onSQLite(t)
	id := newID()
	if err := b.try(t, note(func(r *row) { r.contract, r.task, r.index, r.id = 1.0, "t", 3.0, strings.ToUpper(id) })); err != nil {
		t.Fatal(err)
	}
	if got := one[int](t, b, "SELECT task_index FROM {s}intent WHERE ref = ? AND typeof(task_index) = 'integer'", b.ref(id)); got != 3 {
		t.Errorf("index %d", got)
	}
}

// TestTimesAreKept: the earliest time is what was asked for, in any zone; a past one
// is now.
func TestTimesAreKept(t *testing.T) {
	onBoth(t, func(t *testing.T, b *base) {
		ob := b.outbox(t, nil)
		want := time.Date(2040, 2, 29, 23, 30, 15, 250e6, time.UTC)
		for _, text := range []string{"2040-02-29T23:30:15.250Z", "2040-03-01 01:30:15.25+02:00", "2000-01-01T00:00:00Z"} {
			id := newID()
			before := time.Now().Add(-time.Second)
			if err := b.try(t, note(func(r *row) { r.id, r.notBefore = id, text })); err != nil {
				t.Fatal(err)
			}
			ref, _ := consign.ParseRef(id)
			found, err := ob.Find(context.Background(), ref)
			if err != nil {
				t.Fatal(err)
			}
			if due := dueOf(t, b, ref); !due.Equal(want) && (text[:4] != "2000" || due.Before(before)) {
				t.Errorf("%s: due %s, status %s", text, due, found.Status)
			}
		}
	})
}

func dueOf(t *testing.T, b *base, ref consign.Ref) time.Time {
	t.Helper()
	return load(t, b, ref).DueAt
}
