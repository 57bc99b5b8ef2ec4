package drivertest

import "testing"

// test is one promise of the contract and how it is shown.
type test[TX any] struct {
	name    string // what holds
	promise string // why it matters, printed where it does not hold
	run     func(b *bench[TX])
}

// Run shows that a driver keeps the contract of package driver. It opens one
// database and resets it before each subtest.
func Run[TX any](t *testing.T, open func(t *testing.T) Harness[TX]) {
	h := open(t)
	for _, group := range []struct {
		name  string
		tests []test[TX]
	}{
		{"Insert", insertTests[TX]()},
		{"Conflict", conflictTests[TX]()},
		{"Claim", claimTests[TX]()},
		{"Reclaim", reclaimTests[TX]()},
		{"Gate", gateTests[TX]()},
		{"Next", nextTests[TX]()},
		{"Apply", applyTests[TX]()},
		{"Settle", settleTests[TX]()},
		{"Fence", fenceTests[TX]()},
		{"Walk", walkTests[TX]()},
		{"Erase", eraseTests[TX]()},
		{"Waitlist", waitlistTests[TX]()},
		{"Prune", pruneTests[TX]()},
		{"Act", actTests[TX]()},
		{"Desk", deskTests[TX]()},
		{"View", viewTests[TX]()},
		{"Run", runTests[TX]()},
		{"Approval", approvalTests[TX]()},
		{"Registry", registryTests[TX]()},
		{"Guard", guardTests[TX]()},
		{"Concurrent", concurrentTests[TX]()},
		{"Cancelled", cancelledTests[TX]()},
	} {
		t.Run(group.name, func(t *testing.T) {
			for _, c := range group.tests {
				t.Run(c.name, func(t *testing.T) {
					t.Cleanup(func() {
						if t.Failed() {
							t.Logf("promise: %s", c.promise)
						}
					})
					c.run(newBench(t, h))
				})
			}
		})
	}
}
