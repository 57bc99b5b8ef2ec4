package cli

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/internal/driver/memory"
)

// full is a disk without space.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

// TestResultThatCannotBePrintedIsNotLost: the message is committed by then. Who
// repeats the call without knowing sends it twice.
func TestResultThatCannotBePrintedIsNotLost(t *testing.T) {
	o, err := consign.New(memory.New(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var errOut bytes.Buffer
	tree := New(Options{Input: strings.NewReader(`{}`), Open: Mount(o).opt.Open})
	code := tree.Main(t.Context(), []string{"enqueue", "--channel", "crm", "--payload", "-"}, full{}, &errOut)
	var listed bytes.Buffer
	if n := Mount(o).Main(t.Context(), []string{"list"}, &listed, &listed); n != ExitDone {
		t.Fatal(listed.String())
	}
	ref, _, _ := strings.Cut(listed.String(), " ")
	said := errOut.String()
	if code != ExitFailed || !strings.Contains(said, ref) || !strings.Contains(said, "committed") || !strings.Contains(said, "Do not repeat") {
		t.Errorf("exit code %d, %q", code, said)
	}
}

// TestUnprintableResultIsDone: the same of every other command.
func TestUnprintableResultIsDone(t *testing.T) {
	o, err := consign.New(memory.New(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var errOut bytes.Buffer
	code := Mount(o).Main(t.Context(), []string{"pause", "crm", "--by", "ann"}, full{}, &errOut)
	if said := errOut.String(); code != ExitFailed || !strings.Contains(said, "the result cannot be written") || strings.Contains(said, "doctor") {
		t.Errorf("exit code %d, %q", code, said)
	}
}

// TestFaultsNameTheFlag: what the library calls a field is a flag to whoever types.
func TestFaultsNameTheFlag(t *testing.T) {
	o, err := consign.New(memory.New(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, want string }{
		{"pause crm", "--by is missing"},
		{"resolve 0198c5f0-1f7e-7cc3-98c4-dc0c0c07398f --outcome delivered --evidence x", "--by is missing"},
		{"cancel 0198c5f0-1f7e-7cc3-98c4-dc0c0c07398f", "--by is missing"},
	} {
		var errOut bytes.Buffer
		code := Mount(o).Main(t.Context(), strings.Fields(c.args), &errOut, &errOut)
		if code != ExitUsage || !strings.Contains(errOut.String(), c.want) {
			t.Errorf("%s: exit code %d, %q", c.args, code, errOut.String())
		}
	}
}
