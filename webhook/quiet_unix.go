//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package webhook

import (
	"net"
	"syscall"
)

// quiet reports whether nothing has come in on an idle connection: neither its end
// nor bytes that nobody asked for. It looks without waiting and takes nothing away.
func quiet(c net.Conn) bool {
	s, ok := c.(syscall.Conn)
	if !ok {
		return true
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return false
	}
	still := false
	err = raw.Read(func(fd uintptr) bool {
		var one [1]byte
		_, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		still = err == syscall.EAGAIN || err == syscall.EWOULDBLOCK
		return true
	})
	return err == nil && still
}
