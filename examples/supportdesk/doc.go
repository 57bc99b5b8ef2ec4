// Package supportdesk is a small program as one writes it with Consign: the tickets
// of several tenants, the staff who work on them, a CRM that is told, and customers
// who get answers. It runs on any database that package consign has a store for; the
// program that uses it opens that database.
//
// Read it in this order. tables.go has the program's own tables. triage.go changes a
// ticket in an operation that somebody else has to approve, and leaves work in the
// same transaction. notice.go delivers that work. authority.go answers, at that later
// moment, whether it may still be delivered. answer.go is the plain way: a row and a
// message to the customer, together or not at all. desk.go puts it together.
//
// The tests show what becomes of work when the world changes between the commit and
// the delivery.
package supportdesk
