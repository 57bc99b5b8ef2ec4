package operator

import (
	"slices"
	"time"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/internal/lifecycle"
)

// Contract is what a kind or channel promises. An intent keeps the one that it was
// created under, or that its first claim gave it.
type Contract struct {
	Version     string   // of work
	Fingerprint [32]byte // of work; zero: none
	Retry       string   // who owns retries: "process", "schedule", or "unclaimed" where it is driven by hand or not known yet
	Idempotent  bool
	MaxAttempts int           // 0: no limit
	Lease       time.Duration // how long a claim holds
	Timeout     time.Duration // what one effect may take
	MaxAge      time.Duration // from the first due time to the deadline; 0: none
}

func contractOf(version string, fingerprint [32]byte, c *lifecycle.Contract) Contract {
	return Contract{
		Version: version, Fingerprint: fingerprint, Retry: c.Retry.String(), Idempotent: c.Idempotent, MaxAttempts: c.MaxAttempts,
		Lease: c.Lease, Timeout: c.Timeout, MaxAge: c.MaxAge,
	}
}

// Codes lists the codes that are stored with intents, for filters.
func Codes() []consign.Code {
	reported := []consign.Code{consign.CodeFenced, consign.CodeAuthorityMissing, consign.CodeEffectCalledTwice}
	return slices.DeleteFunc(slices.Clone(lifecycle.Codes), func(c consign.Code) bool { return slices.Contains(reported, c) })
}
