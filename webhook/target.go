package webhook

import (
	"errors"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// target is a checked URL.
type target struct {
	tls  bool
	name string // host without a port or brackets: what the certificate must name
	addr string // host:port to dial
	host string // the Host header
	path string // path and query, as they go into the request line
}

const maxURL = 2048

// Faults of a URL. They do not quote it: it may hold a token.
var (
	errURLLong     = errors.New("is empty or longer than 2048 bytes")
	errURLSyntax   = errors.New("is not an absolute URL in printable ASCII")
	errURLScheme   = errors.New("is not an https URL, nor an http one that plaintext allows")
	errURLUser     = errors.New("has user information in it")
	errURLFragment = errors.New("has a fragment")
	errURLHost     = errors.New("has no host, or one that is not a name or an address")
	errURLPort     = errors.New("has a port that is not among ports (443 by default)")
	errURLAddress  = errors.New("names an address that is not public and not in allow")
)

// parseURL checks a URL against the endpoint's policy. Names are not resolved here:
// the guard sees their addresses when they are dialled.
func (e *Endpoint) parseURL(text string) (*target, error) {
	if len(text) == 0 || len(text) > maxURL {
		return nil, errURLLong
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errURLSyntax
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Opaque != "":
		return nil, errURLSyntax
	case u.Scheme != "https" && (u.Scheme != "http" || !e.opt.Plaintext):
		return nil, errURLScheme
	case u.User != nil:
		return nil, errURLUser
	case u.Fragment != "" || strings.HasSuffix(text, "#"):
		return nil, errURLFragment
	}
	t := &target{tls: u.Scheme == "https", name: strings.TrimSuffix(u.Hostname(), "."), host: u.Host, path: u.RequestURI()}
	port := u.Port()
	if port == "" {
		port = "80"
		if t.tls {
			port = "443"
		}
		t.host = strings.TrimSuffix(t.host, ":")
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || !slices.Contains(e.opt.Ports, uint16(n)) {
		return nil, errURLPort
	}
	if a, err := netip.ParseAddr(t.name); err == nil {
		if !e.guard.permits(a) {
			return nil, errURLAddress
		}
		if a.Zone() != "" { // means something on this machine only (RFC 6874 section 4)
			t.host = strings.Replace(t.host, "%"+a.Zone(), "", 1)
		}
	} else if !hostName(t.name) {
		return nil, errURLHost
	}
	t.addr = net.JoinHostPort(t.name, strconv.FormatUint(n, 10))
	return t, nil
}

// hostName reports whether s looks like a name of the DNS and not like another
// spelling of an address (0x7f.1, 2130706433), which some resolvers take for one.
func hostName(s string) bool {
	if len(s) == 0 || len(s) > 253 {
		return false
	}
	last := s[strings.LastIndexByte(s, '.')+1:]
	if last == "" || last[0] >= '0' && last[0] <= '9' {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if len(label) == 0 || len(label) > 63 {
			return false
		}
		for i := range len(label) {
			c := label[i] | 0x20
			if (c < 'a' || c > 'z') && (label[i] < '0' || label[i] > '9') && label[i] != '-' && label[i] != '_' {
				return false
			}
		}
	}
	return true
}
