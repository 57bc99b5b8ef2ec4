package canon

import (
	"math"
	"strconv"
)

// maxInteger is the largest integer that every JSON implementation keeps exactly (RFC 7493 section 2.2).
const maxInteger = 1<<53 - 1

func (e *encoder) integer(i int64) bool {
	if i < -maxInteger || i > maxInteger {
		return e.fault(ruleInteger)
	}
	e.buf = strconv.AppendInt(e.buf, i, 10)
	return true
}

func (e *encoder) unsigned(u uint64) bool {
	if u > maxInteger {
		return e.fault(ruleInteger)
	}
	e.buf = strconv.AppendUint(e.buf, u, 10)
	return true
}

// float writes a float of 32 or 64 bits. One that would be spelled as a too large integer is refused: read back, it would
// be an integer that this package refuses. 1e30 is spelled 1e+30 and is fine.
func (e *encoder) float(f float64, size int) bool {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return e.fault(ruleFinite)
	}
	if math.Abs(f) > maxInteger && !scientific(f, size) {
		return e.fault(ruleInteger)
	}
	e.buf = appendNumber(e.buf, f, size)
	return true
}

// number writes a json.Number, which may hold anything. An empty one is refused, although encoding/json writes 0 for it.
func (e *encoder) number(n string) bool {
	switch end, integer := numberEnd(n, 0); {
	case end != len(n):
		return e.fault(ruleNumber)
	case integer:
		return digits(e, n)
	}
	return decimal(e, n)
}

// decimal writes a number token with a fraction or an exponent.
func decimal[T ~string | ~[]byte](e *encoder, token T) bool {
	f, err := strconv.ParseFloat(string(token), 64)
	if err != nil {
		return e.fault(ruleFinite) // the grammar is checked, so only the range is left
	}
	return e.float(f, 64)
}

// digits writes an integer token as it stands, compared by its digits: a detour through a float would accept
// 9007199254740993 as its neighbour.
func digits[T ~string | ~[]byte](e *encoder, token T) bool {
	magnitude := token
	if token[0] == '-' {
		magnitude = token[1:]
	}
	var u uint64
	for i := range min(len(magnitude), len("9007199254740991")+1) {
		u = u*10 + uint64(magnitude[i]-'0')
	}
	switch {
	case u > maxInteger:
		return e.fault(ruleInteger)
	case u == 0: // -0 is 0 (RFC 8785 appendix B)
		e.buf = append(e.buf, '0')
	default:
		e.buf = append(e.buf, token...)
	}
	return true
}

// numberEnd returns where the number that starts at s[i] ends, or -1 if no number by the grammar of RFC 8259 section 6
// starts there, and whether it has neither fraction nor exponent.
func numberEnd[T ~string | ~[]byte](s T, i int) (end int, integer bool) {
	if i < len(s) && s[i] == '-' {
		i++
	}
	first := i
	i = digitsEnd(s, i)
	if i == first || s[first] == '0' && i > first+1 {
		return -1, false
	}
	integer = true
	if i < len(s) && s[i] == '.' {
		integer = false
		first = i + 1
		if i = digitsEnd(s, first); i == first {
			return -1, false
		}
	}
	if i < len(s) && s[i]|0x20 == 'e' {
		integer = false
		if i++; i < len(s) && (s[i] == '+' || s[i] == '-') {
			i++
		}
		first = i
		if i = digitsEnd(s, first); i == first {
			return -1, false
		}
	}
	return i, integer
}

func digitsEnd[T ~string | ~[]byte](s T, i int) int {
	for i < len(s) && s[i]-'0' <= 9 {
		i++
	}
	return i
}

// scientific reports whether ECMAScript writes f with an exponent. The comparison is made in the float's own size, so that
// the float32 nearest to a border lies on the same side as its shortest decimal.
func scientific(f float64, size int) bool {
	abs := math.Abs(f)
	if size == 32 {
		return abs != 0 && (float32(abs) < 1e-6 || float32(abs) >= 1e21)
	}
	return abs != 0 && (abs < 1e-6 || abs >= 1e21)
}

// appendNumber writes a finite float of 32 or 64 bits as ECMAScript does (RFC 8785 section 3.2.2.3, ECMA-262 Number to
// string): the shortest digits that read back as the same float, laid out by magnitude.
func appendNumber(dst []byte, f float64, size int) []byte {
	// Integers that both sizes hold exactly have one spelling, which is far cheaper to find. This includes -0.
	if i := int64(f); float64(i) == f && (-1<<24 < i && i < 1<<24 || size == 64 && -1<<53 < i && i < 1<<53) {
		return strconv.AppendInt(dst, i, 10)
	}
	if !scientific(f, size) {
		return strconv.AppendFloat(dst, f, 'f', -1, size)
	}
	dst = strconv.AppendFloat(dst, f, 'e', -1, size)
	// strconv pads the exponent to two digits: 1e-07 is 1e-7 here.
	if n := len(dst); dst[n-2] == '0' && (dst[n-3] == '-' || dst[n-3] == '+') {
		dst = append(dst[:n-2], dst[n-1])
	}
	return dst
}
