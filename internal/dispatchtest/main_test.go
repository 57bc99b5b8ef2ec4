//go:build unix

package dispatchtest

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/consign-go/consign/internal/pgtest"
)

// TestMain runs the tests, or plays the worker program that one of them has
// started. No test leaves a goroutine behind.
func TestMain(m *testing.M) {
	if raw := os.Getenv(programVariable); raw != "" {
		if err := playProgram(raw); err != nil {
			fmt.Println("fault:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(pgtest.Runner{M: m})
}
