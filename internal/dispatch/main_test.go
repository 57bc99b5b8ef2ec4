package dispatch

import (
	"testing"

	"go.uber.org/goleak"
)

// No test leaves a goroutine behind. Inside a bubble of synctest that is checked
// for each test; this is for all others.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
