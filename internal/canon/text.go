package canon

import (
	"math/bits"
	"unicode/utf8"
)

// plain returns the index of the first byte of s, from i on, that a JSON string cannot hold as it is: a quotation mark, a
// backslash or a control character; len(s) if there is none. high is true if a byte before it is not ASCII.
func plain[T ~string | ~[]byte](s T, i int) (end int, high bool) {
	var seen uint64
	for start := i; i < len(s); {
		if i+8 > len(s) {
			if len(s)-start < 8 {
				break
			}
			i = len(s) - 8 // again over bytes that are known to be plain, rather than one by one
		}
		w := uint64(s[i]) | uint64(s[i+1])<<8 | uint64(s[i+2])<<16 | uint64(s[i+3])<<24 |
			uint64(s[i+4])<<32 | uint64(s[i+5])<<40 | uint64(s[i+6])<<48 | uint64(s[i+7])<<56
		if mask := special(w); mask != 0 {
			n := bits.TrailingZeros64(mask) / 8
			seen |= w & (1<<(8*n) - 1)
			return i + n, seen&tops != 0
		}
		seen |= w
		i += 8
	}
	for ; i < len(s); i++ {
		c := s[i]
		if c < ' ' || c == '"' || c == '\\' {
			break
		}
		seen |= uint64(c)
	}
	return i, seen&tops != 0
}

const (
	ones = 0x0101010101010101
	tops = 0x8080808080808080
)

// special looks at eight bytes together, the first in the lowest place. The top bit of each byte that is a quotation mark,
// a backslash or a control character is set in the result. A borrow can set others wrongly, but only above a right one, so
// the lowest one can be trusted.
func special(w uint64) uint64 {
	quote := w ^ ones*'"'
	slash := w ^ ones*'\\'
	return ((w-ones*' ')&^w | (quote-ones)&^quote | (slash-ones)&^slash) & tops
}

// appendText writes s as a JSON string the way ECMAScript does (RFC 8785 section 3.2.2.2): only quotation marks,
// backslashes and the control characters below U+0020 are escaped, everything else stands for itself. The returned rule
// is empty unless s is invalid UTF-8 or has a NUL in it; what was appended is then of no use.
func appendText[T ~string | ~[]byte](dst []byte, s T) ([]byte, string) {
	start, anyHigh := len(dst), false
	dst = append(dst, '"')
	for i := 0; ; i++ {
		end, high := plain(s, i)
		anyHigh = anyHigh || high
		dst = append(dst, s[i:end]...)
		if end == len(s) {
			break
		}
		if i = end; s[i] == 0 {
			return dst, ruleNUL
		}
		dst = appendEscape(dst, s[i])
	}
	// Escapes are ASCII, so what was written is valid exactly if s is.
	if anyHigh && !utf8.Valid(dst[start:]) {
		return dst, ruleUTF8
	}
	return append(dst, '"'), ""
}

func appendEscape(dst []byte, c byte) []byte {
	const hex = "0123456789abcdef"
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\b':
		return append(dst, `\b`...)
	case '\t':
		return append(dst, `\t`...)
	case '\n':
		return append(dst, `\n`...)
	case '\f':
		return append(dst, `\f`...)
	case '\r':
		return append(dst, `\r`...)
	}
	return append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
}

// compare orders two valid UTF-8 strings by their UTF-16 code units (RFC 8785 section 3.2.3).
//
// Bytes give that order except in one place: characters beyond the basic plane are surrogates in UTF-16 and sort before
// U+E000 to U+FFFF, while their first bytes, F0 to F4, come after EE and EF. Those six bytes never continue a character,
// so where two strings first differ they can be told by themselves.
func compare[T ~string | ~[]byte](a, b T) int {
	for i := range min(len(a), len(b)) {
		if x, y := a[i], b[i]; x != y {
			if x >= 0xEE && y >= 0xEE && (x >= 0xF0) != (y >= 0xF0) {
				x, y = y, x
			}
			return int(x) - int(y)
		}
	}
	return len(a) - len(b)
}
