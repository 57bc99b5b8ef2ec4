package webhook

import (
	"errors"
	"net/netip"
	"slices"
	"syscall"
)

// errBlocked: the guard keeps an address from being dialled.
var errBlocked = errors.New("the address is not one that may be called")

// guard decides about every address that is about to be dialled. It sits in the
// dialer, after the name was resolved, so that an answer of the name server that
// changes between two look-ups cannot pass it.
type guard struct{ allow []netip.Prefix }

// blocked4 are the IPv4 networks that are no place on the public internet: the IANA
// special-purpose registry (RFC 6890), multicast (RFC 5771) and reserved space.
var blocked4 = prefixes(
	"0.0.0.0/8",       // this network
	"10.0.0.0/8",      // private
	"100.64.0.0/10",   // shared by carriers
	"127.0.0.0/8",     // loopback
	"169.254.0.0/16",  // link-local, and most clouds' metadata
	"172.16.0.0/12",   // private
	"192.0.0.0/24",    // protocol assignments
	"192.0.2.0/24",    // documentation
	"192.88.99.0/24",  // 6to4 relays
	"192.168.0.0/16",  // private
	"198.18.0.0/15",   // benchmarks
	"198.51.100.0/24", // documentation
	"203.0.113.0/24",  // documentation
	"224.0.0.0/4",     // multicast
	"240.0.0.0/4",     // reserved, broadcast
)

// global6 is all that IANA hands out as global unicast; blocked6 are the special
// networks inside it. Everything else (loopback, mapped and compatible IPv4, NAT64,
// discard, segment routing, unique-local, link-local, site-local, multicast) is
// outside global6.
var (
	global6  = netip.MustParsePrefix("2000::/3")
	blocked6 = prefixes(
		"2001::/23",     // protocol assignments: Teredo, benchmarks, ORCHID
		"2001:db8::/32", // documentation
		"2002::/16",     // 6to4: an IPv4 address in disguise
		"3fff::/20",     // documentation
	)
)

// metadata are addresses at which clouds hand out credentials. A network that
// contains one does not allow it; only the address by itself does.
var metadata = []netip.Addr{
	netip.MustParseAddr("169.254.169.254"),
	netip.MustParseAddr("169.254.170.2"),
	netip.MustParseAddr("169.254.170.23"),
	netip.MustParseAddr("169.254.42.42"),
	netip.MustParseAddr("192.0.0.192"),
	netip.MustParseAddr("168.63.129.16"),
	netip.MustParseAddr("100.100.100.200"),
	netip.MustParseAddr("fd00:ec2::23"),
	netip.MustParseAddr("fd00:ec2::254"),
	netip.MustParseAddr("fd00:42::42"),
	netip.MustParseAddr("fd20:ce::254"),
}

func prefixes(texts ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(texts))
	for i, s := range texts {
		out[i] = netip.MustParsePrefix(s)
	}
	return out
}

// permits reports whether an address may be dialled.
func (g *guard) permits(a netip.Addr) bool {
	if !a.IsValid() {
		return false
	}
	a = a.Unmap().WithZone("")
	if slices.Contains(metadata, a) {
		return slices.ContainsFunc(g.allow, func(p netip.Prefix) bool { return p.IsSingleIP() && p.Addr() == a })
	}
	holds := func(p netip.Prefix) bool { return p.Contains(a) }
	allowed := slices.ContainsFunc(g.allow, holds)
	switch inner, carries := carried(a); {
	case carries:
		return allowed && g.permits(inner)
	case allowed:
		return true
	case a.Is4():
		return !slices.ContainsFunc(blocked4, holds)
	}
	return global6.Contains(a) && !slices.ContainsFunc(blocked6, holds)
}

// Networks whose addresses lead to the IPv4 address inside them.
var (
	nat64  = netip.MustParsePrefix("64:ff9b::/96") // RFC 6052
	sixTo4 = netip.MustParsePrefix("2002::/16")    // RFC 3056
)

// carried returns the IPv4 address to which an address really leads. A network that
// is allowed for the sake of translated public addresses must not open the private
// ones behind the translator.
func carried(a netip.Addr) (inner netip.Addr, carries bool) {
	b := a.As16()
	switch {
	case nat64.Contains(a):
		return netip.AddrFrom4([4]byte(b[12:16])), true
	case sixTo4.Contains(a):
		return netip.AddrFrom4([4]byte(b[2:6])), true
	}
	return netip.Addr{}, false
}

// control is called by the dialer with the very address that it connects to.
func (g *guard) control(_, address string, _ syscall.RawConn) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil || !g.permits(ap.Addr()) {
		return errBlocked
	}
	return nil
}
