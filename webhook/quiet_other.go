//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package webhook

import "net"

// quiet cannot look at a connection here without reading from it.
func quiet(net.Conn) bool { return true }
