package postgres

import (
	"strings"
	"time"

	"github.com/consign-go/consign/internal/driver"
)

// insertArgs are rows as the parameters of the insert statements, in the order of
// their numbers.
func insertArgs(rows []*driver.New) []any {
	n := len(rows)
	refs, payloads, digests := make(uuids, n), payloadColumn(rows), make(blobs, n)
	var key, predecessor sparse[driver.ID]
	var workKey, trace sparse[string]
	var notBefore sparse[time.Time]
	var bound sparse[[]byte]
	var index sparse[int64]
	for i, r := range rows {
		refs[i], digests[i] = r.Ref, r.Digest[:]
		put(&key, i, n, r.CarriedKey())
		put(&predecessor, i, n, r.Predecessor)
		put(&workKey, i, n, r.WorkKey)
		put(&trace, i, n, r.Trace)
		if !r.NotBefore.IsZero() {
			notBefore.at(i, n, r.NotBefore)
		}
		if r.Bound != ([32]byte{}) {
			bound.at(i, n, r.Bound[:])
		}
		put(&index, i, n, int64(r.Index))
	}
	args := make([]any, 0, 48)
	args = append(args, refs, payloads, digests,
		array(uuids(key), len(key)), array(texts(workKey), len(workKey)), array(texts(trace), len(trace)),
		array(moments(notBefore), len(notBefore)), array(uuids(predecessor), len(predecessor)),
		array(blobs(bound), len(bound)), array(numbers(index), len(index)))
	for _, of := range []func(int) string{
		func(i int) string { return rows[i].Kind }, routeOf(rows),
		func(i int) string { return rows[i].Version }, func(i int) string { return rows[i].Operation },
		func(i int) string { return rows[i].Actor }, func(i int) string { return rows[i].Tenant },
		func(i int) string { return rows[i].SecurityVersion }, func(i int) string { return rows[i].Target },
		func(i int) string { return rows[i].TargetVersion }, func(i int) string { return rows[i].Address },
		func(i int) string { return rows[i].Task }, func(i int) string { return rows[i].Subject },
	} {
		all, same := fold(n, of)
		args = append(args, array(texts(all), len(all)), text(same))
	}
	runs, run := fold(n, func(i int) driver.ID { return rows[i].Run })
	args = append(args, array(uuids(runs), len(runs)), uuid(run))
	args = append(args, fingerprints(rows)...)
	for _, of := range []func(int) int64{
		func(i int) int64 { return shape(rows[i]) },
		func(i int) int64 { return int64(rows[i].Contract.MaxAttempts) },
		func(i int) int64 { return rows[i].Contract.Lease.Milliseconds() },
		func(i int) int64 { return rows[i].Contract.Timeout.Milliseconds() },
		func(i int) int64 { return rows[i].Contract.MaxAge.Milliseconds() },
	} {
		all, same := fold(n, of)
		args = append(args, array(numbers(all), len(all)), same)
	}
	return args
}

// fold returns the values of a column: as one where all rows have the same, else
// as a slice.
func fold[T comparable](n int, of func(i int) T) (all []T, same T) {
	same = of(0)
	for i := 1; i < n; i++ {
		v := of(i)
		if all == nil && v != same {
			all = make([]T, n)
			for before := range i {
				all[before] = same
			}
		}
		if all != nil {
			all[i] = v
		}
	}
	if all != nil {
		var none T
		return all, none
	}
	return nil, same
}

// routeOf returns the route of each row in turn; neighbours mostly share it.
func routeOf(rows []*driver.New) func(int) string {
	last, route := (*driver.New)(nil), ""
	return func(i int) string {
		if r := rows[i]; last == nil || r.Kind != last.Kind || r.Profile != last.Profile || r.Fingerprint != last.Fingerprint {
			last, route = r, r.Route()
		}
		return route
	}
}

func fingerprints(rows []*driver.New) []any {
	all, same := fold(len(rows), func(i int) [32]byte { return rows[i].Fingerprint })
	column := make(blobs, len(all))
	for i := range all {
		if all[i] != ([32]byte{}) {
			column[i] = all[i][:]
		}
	}
	return []any{array(column, len(all)), digest(same)}
}

// payloadColumn holds all payloads in one string that its elements share.
func payloadColumn(rows []*driver.New) texts {
	size := 0
	for _, r := range rows {
		size += len(r.Payload)
	}
	var b strings.Builder
	b.Grow(size)
	for _, r := range rows {
		b.Write(r.Payload)
	}
	whole, column := b.String(), make(texts, len(rows))
	for i, r := range rows {
		column[i], whole = whole[:len(r.Payload)], whole[len(r.Payload):]
	}
	return column
}

// shape is what the insert statements take apart: two bits each for profile, link
// and retry owner, one each for idempotent and uncertain.
func shape(n *driver.New) int64 {
	bits := int64(n.Profile) | int64(n.Link)<<2 | int64(n.Contract.Retry)<<4
	if n.Contract.Idempotent {
		bits |= 1 << 6
	}
	if n.Uncertain {
		bits |= 1 << 7
	}
	return bits
}
