//go:build unix && !linux

package pgtest

import "syscall"

// dieWithParent does nothing here: a server whose supervisor was killed is
// stopped by the next start.
func dieWithParent(*syscall.SysProcAttr) {}
