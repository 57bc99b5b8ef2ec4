package dispatch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/consign-go/consign/internal/lifecycle"
)

var (
	cause   = errors.New("cause")
	sentNot = &Definite{Event: lifecycle.EvNotSent, Err: cause}
)

// unlucky is an error that panics when it is looked into.
type unlucky struct{ text, unwrap bool }

func (u unlucky) Error() string {
	if u.text {
		panic("text")
	}
	return "unlucky"
}

func (u unlucky) Unwrap() error {
	if u.unwrap {
		panic("unwrap")
	}
	return sentNot
}

func TestClassifyTakesOnlySingleWraps(t *testing.T) {
	var none *Definite
	for name, c := range map[string]struct {
		err  error
		want lifecycle.EventKind
	}{
		"none":                    {nil, lifecycle.EvSucceeded},
		"not sent":                {sentNot, lifecycle.EvNotSent},
		"refused":                 {&Definite{Event: lifecycle.EvRefused}, lifecycle.EvRefused},
		"rejected":                {&Definite{Event: lifecycle.EvRejected}, lifecycle.EvRejected},
		"wrapped":                 {fmt.Errorf("b: %w", fmt.Errorf("a: %w", sentNot)), lifecycle.EvNotSent},
		"the outer one counts":    {&Definite{Event: lifecycle.EvRejected, Err: sentNot}, lifecycle.EvRejected},
		"plain":                   {cause, lifecycle.EvUnknown},
		"joined":                  {errors.Join(sentNot), lifecycle.EvUnknown},
		"joined with another":     {errors.Join(sentNot, cause), lifecycle.EvUnknown},
		"wrapped twice at once":   {fmt.Errorf("%w and %w", sentNot, cause), lifecycle.EvUnknown},
		"inside a join, deeper":   {fmt.Errorf("a: %w", errors.Join(fmt.Errorf("b: %w", sentNot), cause)), lifecycle.EvUnknown},
		"context":                 {context.DeadlineExceeded, lifecycle.EvUnknown},
		"class of something else": {&Definite{Event: lifecycle.EvSucceeded}, lifecycle.EvUnknown},
		"typed nil":               {none, lifecycle.EvUnknown},
		"quoted only":             {fmt.Errorf("%v", sentNot), lifecycle.EvUnknown},
	} {
		if kind, _, _ := classify(c.err); kind != c.want {
			t.Errorf("%s: %s, want %s", name, kind, c.want)
		}
	}
	_, wish, http := classify(fmt.Errorf("a: %w", &Definite{Event: lifecycle.EvRefused, Wait: time.Minute, HTTP: 429}))
	if wish != time.Minute || http != 429 {
		t.Errorf("wish %s, status %d", wish, http)
	}
	kind, wish, http := classify(&Definite{Event: lifecycle.EvUnknown, Wait: time.Minute, HTTP: 502})
	if kind != lifecycle.EvUnknown || wish != time.Minute || http != 502 {
		t.Errorf("unknown: %s, wish %s, status %d", kind, wish, http)
	}
	if _, wish, _ = classify(&Definite{Event: lifecycle.EvRefused, Wait: -time.Minute}); wish != 0 {
		t.Errorf("wish %s", wish)
	}
}

// There is a verdict whatever the effect or its error does.
func TestJudgeAlwaysComesToAVerdict(t *testing.T) {
	for name, c := range map[string]struct {
		effect func() error
		want   lifecycle.EventKind
		text   string
	}{
		"success":                  {func() error { return nil }, lifecycle.EvSucceeded, ""},
		"definite":                 {func() error { return sentNot }, lifecycle.EvNotSent, "not sent: cause"},
		"panic":                    {func() error { panic("secret") }, lifecycle.EvUnknown, "panic: a value of type string"},
		"panic with a class":       {func() error { panic(sentNot) }, lifecycle.EvUnknown, "panic: *dispatch.Definite"},
		"nil panic":                {func() error { panic(nil) }, lifecycle.EvUnknown, "panic: *runtime.PanicNilError"},
		"error without a text":     {func() error { return unlucky{text: true} }, lifecycle.EvNotSent, "panic: a value of type string"},
		"error that is no wrapper": {func() error { return unlucky{unwrap: true} }, lifecycle.EvUnknown, "unlucky"},
		"typed nil":                {func() error { return (*Definite)(nil) }, lifecycle.EvUnknown, "panic: runtime.errorString"},
	} {
		v := judge(contain(c.effect))
		if v.kind != c.want || !strings.HasPrefix(v.text, c.text) {
			t.Errorf("%s: %s %q, want %s %q", name, v.kind, v.text, c.want, c.text)
		}
		if strings.Contains(v.text, "secret") {
			t.Errorf("%s: the text quotes the value of a panic", name)
		}
	}
}

func TestErrorTextIsAcceptedByAnyDatabase(t *testing.T) {
	for in, want := range map[string]string{
		"plain":      "plain",
		"a\x00b":     "a\uFFFDb",
		"a\xff\xfeb": "a\uFFFDb",
		"\x00":       "\uFFFD",
		"grün, 緑, 🟢": "grün, 緑, 🟢",
	} {
		if got := errorText(errors.New(in)); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if errorText(nil) != "" {
		t.Error("no error has a text")
	}
	for _, unit := range []string{"a", "ü", "緑", "🟢", "\x00", "\xff."} {
		for shift := range 4 {
			got := errorText(errors.New(strings.Repeat("x", shift) + strings.Repeat(unit, 2000)))
			if len(got) > maxErrorText || len(got) < maxErrorText-3 || !utf8.ValidString(got) {
				t.Errorf("%q: %d bytes, valid %v", unit, len(got), utf8.ValidString(got))
			}
		}
	}
}
