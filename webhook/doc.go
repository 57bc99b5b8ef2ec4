// Package webhook sends messages, and the requests of work, as signed HTTP POSTs,
// and says of each what it has proven.
//
// [New] takes the policy of an endpoint. [Endpoint.Channel] makes a channel of it
// for consign.Options; [Endpoint.Post] is the effect of a work handler. Package
// webhook/receive is for the other end.
//
// # One attempt, one request
//
// An attempt writes at most one request, on one connection, and is never repeated
// here: trying again is the outbox's decision, which knows what the last attempt
// has proven. net/http's client repeats a POST by itself in several cases, so none
// of it is used for sending; answers are read with its parser. HTTP/1.1 only,
// redirects are not followed, and nothing is decompressed.
//
// # Five verdicts
//
// [Accepted], [NotSent], [Refused], [Rejected] and [Unknown]; [Endpoint.Rules] is
// the table for answers. Without an answer the verdict rests on a count of the bytes
// that the connection has taken: none means NotSent, any means Unknown.
//
// # Where it may connect
//
// Only to public addresses, https and port 443, unless [Options] say otherwise.
// The check is made on the address that is dialled, after the name was resolved.
package webhook
