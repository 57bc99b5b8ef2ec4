// Package bench compares Consign with a job queue and with what the database
// itself can do, all on one server that it starts for the purpose.
//
// Machines differ and are noisy, so no figure stands alone: every subject runs in
// turn, round after round, and what counts is the ratio of medians. The command
// compare runs it; README.md says what each line means.
package bench
