package webhook

import (
	"testing"

	"go.uber.org/goleak"
)

// No goroutine outlives a post, an endpoint or a test's peer.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
