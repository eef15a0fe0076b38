//go:build !linux

package pgcluster

import "errors"

func mountMemory(string, int) error { return errors.ErrUnsupported }

func unmount(string) error { return errors.ErrUnsupported }
