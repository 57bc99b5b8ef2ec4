//go:build unix && !linux

package bench

import "syscall"

// dieWithParent does nothing where the kernel does not offer it.
func dieWithParent(*syscall.SysProcAttr) {}
