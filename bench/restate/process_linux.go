package main

import "syscall"

// childAttr makes the kernel end a child with us, whatever ends us. It has a
// group of its own: a Ctrl-C at the terminal is for this process to act on.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
