// Package pqtest shows that callers can bring their transactions over lib/pq. It
// is a module of its own, so that nobody else depends on that library.
package pqtest
