package canon

import "slices"

// member is one member of an object of raw JSON.
type member struct {
	key      []byte // escapes resolved; in src or in the arena
	from, to int    // where its canonical text lies in buf: name, colon and value
}

// object reads an object, writing its members as they come, and puts them in order at the end if they were not.
func (s *scanner) object() bool {
	e := s.e
	if !e.enter() {
		return false
	}
	s.at++
	e.buf = append(e.buf, '{')
	start, base, mark := len(e.buf), len(e.members), len(e.arena)
	sorted := true
	for i := 0; ; i++ {
		c := s.next()
		if c == '}' && i == 0 {
			break
		}
		if c != '"' {
			return s.broken("a name must follow")
		}
		n := len(e.faults)
		ok := s.member()
		if len(e.faults) > n {
			e.under(n, entry(i))
		}
		if !ok || !e.room(0) {
			return false
		}
		if last := base + i; i > 0 && sorted {
			sorted = compare(e.members[last-1].key, e.members[last].key) < 0
		}
		if c = s.next(); c == '}' {
			break
		}
		if c != ',' {
			return s.broken("a comma or the end of the object must follow")
		}
		s.at++
		e.buf = append(e.buf, ',')
	}
	s.at++
	goOn := sorted || e.order(start, base)
	clear(e.members[base:])
	e.members = e.members[:base]
	e.arena = e.arena[:mark]
	e.buf = append(e.buf, '}')
	e.depth--
	return goOn && e.room(0)
}

// member reads a name, a colon and a value.
func (s *scanner) member() bool {
	e := s.e
	m := member{from: len(e.buf)}
	n, ok := len(e.faults), false
	m.key, ok = s.quoted()
	if e.inName(n); !ok {
		return false
	}
	e.buf = append(e.buf, ':')
	if s.next() != ':' {
		return s.broken("a colon must follow")
	}
	s.at++
	if !s.value() {
		return false
	}
	m.to = len(e.buf)
	e.members = append(e.members, m)
	return true
}

// order sorts the members from base on, whose text begins at start in buf, and looks for equal names.
func (e *encoder) order(start, base int) bool {
	members := e.members[base:]
	slices.SortFunc(members, func(a, b member) int { return compare(a.key, b.key) })
	for i := 1; i < len(members); i++ {
		if compare(members[i-1].key, members[i].key) == 0 {
			return e.fault(ruleDuplicate)
		}
	}
	e.scratch = append(e.scratch[:0], e.buf[start:]...)
	e.buf = e.buf[:start]
	for i, m := range members {
		if i > 0 {
			e.buf = append(e.buf, ',')
		}
		e.buf = append(e.buf, e.scratch[m.from-start:m.to-start]...)
	}
	return true
}
