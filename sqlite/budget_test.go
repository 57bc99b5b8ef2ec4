package sqlite_test

import (
	"testing"

	"github.com/consign-go/consign/internal/lifecycle"
	"github.com/consign-go/consign/sqlite"
)

// A write gives up waiting for its turn well before the time for a settle is over, so
// that its error is one of the store, and there is time left to try again.
func TestCallsWaitForTheirTurnNoLongerThanASettleMayTake(t *testing.T) {
	if limit := lifecycle.DefaultPolicy.SettleMargin; sqlite.BusyBudget > limit*3/4 {
		t.Errorf("calls wait %s for their turn, and a settle may take %s", sqlite.BusyBudget, limit)
	}
}
