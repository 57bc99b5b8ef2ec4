package canon

import (
	"fmt"
	"unicode/utf16"
	"unicode/utf8"
)

// scanner reads one JSON text (RFC 8259) and writes its canonical form as it goes. It belongs to an encoder, which may be
// in the middle of a Go value.
type scanner struct {
	e   *encoder
	src []byte
	at  int // index in src of what comes next
}

// document reads the whole text.
func (s *scanner) document() bool {
	if !s.value() {
		return false
	}
	if s.next(); s.at < len(s.src) {
		return s.broken("data after the value")
	}
	return true
}

// broken reports text that is not JSON. The walk ends, because nothing after that place has a certain meaning.
func (s *scanner) broken(why string) bool {
	return s.e.stop(fmt.Sprintf("invalid JSON at byte %d: %s", s.at, why))
}

// next skips white space and returns the byte at s.at, or 0 at the end. A real NUL byte fits no grammar either.
func (s *scanner) next() byte {
	for ; s.at < len(s.src); s.at++ {
		switch c := s.src[s.at]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

func (s *scanner) value() bool {
	switch c := s.next(); {
	case c == '"':
		return s.text()
	case c == '{':
		return s.object()
	case c == '[':
		return s.array()
	case c == '-' || '0' <= c && c <= '9':
		return s.number()
	case c == 't':
		return s.word("true")
	case c == 'f':
		return s.word("false")
	case c == 'n':
		return s.word("null")
	case s.at == len(s.src):
		return s.broken("it ends where a value must follow")
	}
	return s.broken("no value starts like this")
}

func (s *scanner) word(w string) bool {
	end := s.at + len(w)
	if end > len(s.src) || string(s.src[s.at:end]) != w {
		return s.broken("no value starts like this")
	}
	s.at = end
	s.e.buf = append(s.e.buf, w...)
	return true
}

func (s *scanner) number() bool {
	end, integer := numberEnd(s.src, s.at)
	if end < 0 {
		return s.broken(ruleNumber)
	}
	token := s.src[s.at:end]
	s.at = end
	if integer {
		return digits(s.e, token)
	}
	return decimal(s.e, token)
}

func (s *scanner) text() bool {
	mark := len(s.e.arena)
	_, ok := s.quoted()
	s.e.arena = s.e.arena[:mark]
	return ok
}

func (s *scanner) array() bool {
	e := s.e
	if !e.enter() {
		return false
	}
	s.at++
	e.buf = append(e.buf, '[')
	for i := 0; ; i++ {
		c := s.next()
		if c == ']' && i == 0 {
			break
		}
		n := len(e.faults)
		ok := s.value()
		if len(e.faults) > n {
			e.under(n, element(i))
		}
		if !ok || !e.room(0) {
			return false
		}
		if c = s.next(); c == ']' {
			break
		}
		if c != ',' {
			return s.broken("a comma or the end of the array must follow")
		}
		s.at++
		e.buf = append(e.buf, ',')
	}
	s.at++
	e.buf = append(e.buf, ']')
	e.depth--
	return e.room(0)
}

// quoted reads a string literal, writes it, and returns its text with escapes resolved. The text lies in src or, if it had
// escapes, on top of the arena, which the caller pops.
func (s *scanner) quoted() ([]byte, bool) {
	start := s.at + 1
	end, high := plain(s.src, start)
	if end == len(s.src) || s.src[end] != '"' {
		str, ok := s.unescaped()
		return str, ok && text(s.e, str)
	}
	// Without escapes a literal is its own canonical form.
	e, str := s.e, s.src[start:end]
	s.at = end + 1
	if !e.room(s.at - start + 1) {
		return nil, false
	}
	if high && !utf8.Valid(str) {
		return str, e.fault(ruleUTF8)
	}
	e.buf = append(e.buf, s.src[start-1:s.at]...)
	return str, true
}

// unescaped reads a string literal onto the arena.
func (s *scanner) unescaped() ([]byte, bool) {
	e, mark := s.e, len(s.e.arena)
	for s.at++; ; {
		end, _ := plain(s.src, s.at)
		if !e.room(len(e.arena) - mark + end - s.at) {
			return nil, false
		}
		e.arena = append(e.arena, s.src[s.at:end]...)
		if s.at = end; end == len(s.src) {
			return nil, s.broken("it ends inside a string")
		}
		switch s.src[end] {
		case '"':
			s.at++
			return e.arena[mark:], true
		case '\\':
			if !s.escape() {
				return nil, false
			}
		default:
			return nil, s.broken("a control character in a string")
		}
	}
}

// escape resolves the escape sequence at s.at onto the arena.
func (s *scanner) escape() bool {
	if s.at+1 >= len(s.src) {
		return s.broken("it ends inside a string")
	}
	c := s.src[s.at+1]
	switch c {
	case '"', '\\', '/':
	case 'b':
		c = '\b'
	case 'f':
		c = '\f'
	case 'n':
		c = '\n'
	case 'r':
		c = '\r'
	case 't':
		c = '\t'
	case 'u':
		return s.unicode()
	default:
		return s.broken("an unknown escape")
	}
	s.at += 2
	s.e.arena = append(s.e.arena, c)
	return true
}

// unicode resolves \uXXXX, or two of them that make a surrogate pair.
func (s *scanner) unicode() bool {
	r := s.unit(s.at)
	if r < 0 {
		return s.broken("an unknown escape")
	}
	s.at += len(`\uXXXX`)
	if !utf16.IsSurrogate(r) {
		s.e.arena = utf8.AppendRune(s.e.arena, r)
		return true
	}
	pair := utf16.DecodeRune(r, s.unit(s.at))
	if pair == utf8.RuneError {
		return s.e.fault(ruleSurrogate)
	}
	s.at += len(`\uXXXX`)
	s.e.arena = utf8.AppendRune(s.e.arena, pair)
	return true
}

// unit returns the UTF-16 code unit written as \uXXXX at index i of src, or -1 if that is not there.
func (s *scanner) unit(i int) rune {
	if len(s.src)-i < len(`\uXXXX`) || s.src[i] != '\\' || s.src[i+1] != 'u' {
		return -1
	}
	var r rune
	for _, c := range s.src[i+2 : i+6] {
		switch {
		case '0' <= c && c <= '9':
			r = r<<4 | rune(c-'0')
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			return -1
		}
	}
	return r
}
