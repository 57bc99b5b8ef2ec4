// Package client is the ent client of the example. All but this file is generated
// from ../schema while the tests run, and never kept.
package client
