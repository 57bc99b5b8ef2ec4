package bench

import "syscall"

// dieWithParent has the kernel stop the server when the thread that started it
// ends.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGQUIT }
