package operator

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// pruneBatch is how many records one transaction of Prune removes.
const pruneBatch = 1000

// Prune removes what has ended and was created strictly before a time, with its
// attempts and findings, in transactions of 1,000 records at most, and returns how
// many. What is open, waits in review or was erased stays. Each transaction is audited
// with the number that it removed; where ctx ends or the database fails, what was
// removed so far stays removed, and is returned.
//
// p is one of the profiles; empty means both. Errors: consign.ErrInvalid,
// consign.ErrSchema, or the database's own.
func (o *Operator) Prune(ctx context.Context, by By, p consign.Profile, before time.Time) (int, error) {
	const op = "prune"
	var fs faults
	fs.by(by)
	only := fs.profile(p, false)
	fs.time("before", before)
	if before.IsZero() {
		fs.add("before", "is the zero time")
	}
	if err := fs.err(op); err != nil {
		return 0, err
	}
	if err := o.ready(ctx, op); err != nil {
		return 0, err
	}
	removed := 0
	for _, profile := range []lifecycle.Profile{lifecycle.Work, lifecycle.Message} {
		if only != 0 && only != profile {
			continue
		}
		audit := driver.Audited{
			By: by.Who, Action: op, Reason: by.Why,
			Before: told{Profile: string(profileOf(profile)), Older: before.UTC().Format(time.RFC3339Nano)}.text(),
		}
		for {
			n, err := o.desk.PruneFor(ctx, profile, before, pruneBatch, audit)
			removed += n
			if err != nil {
				return removed, failure(op, err)
			}
			if n < pruneBatch {
				break
			}
		}
	}
	return removed, nil
}

// maxSubjects is how many subjects one call erases.
const maxSubjects = 1000

// Erase removes the content of everything that belongs to subjects, whatever its
// status, in one transaction: payloads, addresses, error texts, evidence, receipts.
// Nothing of it can be started afterwards; what is in flight cannot be recalled. Of
// each intent a tombstone without content stays (ref, digest, status, whether the
// outcome is unknown, when). It returns how many intents it erased, and is audited with
// that number and without the subjects.
//
// Blank subjects match nothing, and an empty list erases nothing. Errors:
// consign.ErrInvalid (more than 1,000 subjects, or one longer than 128 bytes),
// consign.ErrSchema, or the database's own.
func (o *Operator) Erase(ctx context.Context, by By, subjects []string) (int, error) {
	const op = "erase"
	var fs faults
	fs.by(by)
	if len(subjects) > maxSubjects {
		fs.add("subjects", strconv.Itoa(len(subjects))+", limit "+strconv.Itoa(maxSubjects))
	} else {
		for i, s := range subjects {
			if len(s) > 128 {
				fs.add("subjects["+strconv.Itoa(i)+"]", strconv.Itoa(len(s))+" bytes, limit 128")
			}
			if s = strings.TrimSpace(s); s != "" && strings.Contains(by.Why, s) {
				fs.add("by.why", "names a subject; it outlives the erasure")
			}
		}
	}
	if err := fs.err(op); err != nil {
		return 0, err
	}
	if err := o.ready(ctx, op); err != nil {
		return 0, err
	}
	n, err := o.desk.EraseFor(ctx, subjects, driver.Audited{
		By: by.Who, Action: op, Reason: by.Why, Before: told{Subjects: len(subjects)}.text(),
	})
	return n, failure(op, err)
}
