package sqlite

import "time"

// clock is SQLite's own clock in microseconds since 1970: 'now' has whole
// milliseconds, and a julian day of our time is exact to 40 microseconds, so that
// rounding to milliseconds gives back what the clock showed. It works in every
// SQLite, and shows one time for a whole statement.
const clock = `CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000`

const nowSQL = `SELECT {now}`

// micros is how a time is stored. It is rounded down, as PostgreSQL's is.
func micros(t time.Time) int64 { return t.UnixMicro() }

// microsUp is micros rounded up: a stored time is before t exactly if it is less.
func microsUp(t time.Time) int64 { return t.Add(time.Microsecond - 1).UnixMicro() }

// instant is the stored time as a time; nil is none.
func instant(v any) time.Time {
	if us, ok := v.(int64); ok {
		return time.UnixMicro(us).UTC()
	}
	return time.Time{}
}

// moment is a time as it is stored; the zero time is none.
func moment(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return micros(t)
}

// millis is a duration as it is stored; zero is none.
func millis(d time.Duration) any {
	if d == 0 {
		return nil
	}
	return d.Milliseconds()
}

// duration is the stored milliseconds as a duration.
func duration(v any) time.Duration {
	ms, _ := v.(int64)
	return milliseconds(ms)
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
