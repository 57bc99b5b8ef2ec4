package webhook

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// retryAfter reads Retry-After (RFC 9110 section 10.2.3): whole seconds or a date,
// at most limit. asked reports that there was one that can be read. A date is
// compared with the answer's own Date where it has one, so that the two clocks need
// not agree.
func retryAfter(h http.Header, now time.Time, limit time.Duration) (wait time.Duration, asked bool) {
	text := strings.TrimSpace(h.Get("Retry-After"))
	if text == "" {
		return 0, false
	}
	if digits(text) {
		seconds, err := strconv.ParseInt(text, 10, 64)
		if err != nil || seconds > int64(limit/time.Second) {
			return limit, true // more than can be counted
		}
		return time.Duration(seconds) * time.Second, true
	}
	then, err := http.ParseTime(text)
	if err != nil {
		return 0, false
	}
	if said, err := http.ParseTime(h.Get("Date")); err == nil {
		now = said
	}
	return min(max(then.Sub(now), 0), limit), true
}

func digits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}
