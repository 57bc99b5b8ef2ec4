package console

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// headers are on every answer. Nothing is loaded from elsewhere, nothing is run that
// is not one of the console's own files, and no other page may frame it.
func headers(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "+
		"form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin") // without any, browsers send forms with the origin "null"
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
	h.Set("X-Robots-Tag", "noindex, nofollow")
	h.Set("Cache-Control", "no-store")
}

// admitted reports whether a request comes from where the console is open, under a
// name that it goes by.
func (c *Console) admitted(r *http.Request) bool {
	peer, ok := peerOf(r)
	if c.o.Networks == nil {
		if !(ok && peer.IsLoopback() || overSocketFile(r)) {
			return false
		}
	} else if !ok || !within(peer, c.o.Networks) {
		return false
	}
	host := hostOf(r.Host)
	if c.o.Hosts != nil {
		return slices.ContainsFunc(c.o.Hosts, func(h string) bool { return strings.EqualFold(h, host) })
	}
	if c.o.Networks != nil {
		return true
	}
	address, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && address.IsLoopback()
}

// hostOf is the name in a Host header, without port and brackets.
func hostOf(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}

// peerOf is the address that the request came from.
func peerOf(r *http.Request) (netip.Addr, bool) {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	return peer.Addr().Unmap().WithZone(""), err == nil
}

// overSocketFile reports whether the request came through a Unix socket: from this
// machine.
func overSocketFile(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return ok && local.Network() == "unix"
}

func within(a netip.Addr, networks []netip.Prefix) bool {
	return slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(a) })
}

// below is the path of a request below the console, with its query.
func below(r *http.Request) string {
	if r.URL.RawQuery == "" {
		return r.URL.Path
	}
	return r.URL.Path + "?" + r.URL.RawQuery
}

func query(s string) string { return url.QueryEscape(s) }

// local returns s if it is a path below the console, with or without a query;
// otherwise the overview. It must never lead to another host.
func local(s string) string {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || u.Opaque != "" || !strings.HasPrefix(s, "/") ||
		strings.HasPrefix(s, "//") || strings.ContainsAny(s, "\\\x00\r\n\t") {
		return "/"
	}
	return u.EscapedPath() + querySuffix(u)
}

func querySuffix(u *url.URL) string {
	if u.RawQuery == "" {
		return ""
	}
	return "?" + u.RawQuery
}
