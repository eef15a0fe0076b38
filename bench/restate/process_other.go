//go:build !linux

package main

import "syscall"

// childAttr has nothing to set where the kernel cannot end a child with its
// parent: a child is then ended whenever this process ends in order, and gets a
// terminal's Ctrl-C itself.
func childAttr() *syscall.SysProcAttr { return nil }
