//go:build !unix

package privatepg

import (
	"errors"
	"os"
	"syscall"
)

// errUnsupported is returned where there is no way to run a private server.
var errUnsupported = errors.New("privatepg: a private Postgres cannot be run on this system; " +
	"give the URL of a Postgres, or run everything with: docker compose up")

// serverAccount refuses: the ways in which a private server is guarded (locks
// that end with a process, signals, /bin/sh) are those of Unix. Everything
// else in this file is only there to compile.
func serverAccount() (*account, error) { return nil, errUnsupported }

func (a *account) procAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

func (a *account) own(string) error { return errUnsupported }

func (a *account) ownTree(string) error { return errUnsupported }

func lockFile(*os.File) (bool, error) { return false, errUnsupported }

func unlockFile(*os.File) error { return errUnsupported }

func alive(int) bool { return false }
