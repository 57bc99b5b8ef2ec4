// Package page makes the document about speed from the raw results: tables, charts
// and the figures in its text. What is written by hand stands in a template, so
// that making the page again loses none of it.
package page
