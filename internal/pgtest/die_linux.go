package pgtest

import "syscall"

// dieWithParent has the kernel send the server an immediate-stop signal when
// the thread that started it ends.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGQUIT }
