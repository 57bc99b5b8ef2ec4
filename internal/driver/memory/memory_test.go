package memory_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/consign-go/consign/internal/driver/drivertest"
	"github.com/consign-go/consign/internal/driver/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The reference driver keeps the contract that it is the reference for.
func TestConformance(t *testing.T) {
	drivertest.Run(t, func(*testing.T) drivertest.Harness[*memory.Tx] { return drivertest.Memory() })
}

// The histories themselves are sound: two reference drivers never differ, and the
// histories do every kind of transition.
func TestHistories(t *testing.T) {
	drivertest.Histories(t, drivertest.Memory(), drivertest.Memory(), 40)
}
