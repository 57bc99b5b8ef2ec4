package driver

import (
	"context"
	"time"
)

// Elapser is what stores implement on which tests let time pass.
type Elapser interface {
	// Elapse has for everything that is stored the effect of d having passed: a
	// store in memory moves its clock, a database moves the times in its rows back,
	// in one transaction. The times of intents and of the audit stay, which nothing
	// but people looks at.
	Elapse(ctx context.Context, d time.Duration) error
}
