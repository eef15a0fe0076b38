package child

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/pprof"
	"strings"
)

// Serve tells the parent where this process listens, and answers its lines until
// there are no more. Lines about profiles are answered here: "profile FILE"
// begins one and "profile" ends it.
func Serve(address net.Addr, in io.Reader, out io.Writer, answer func(line string) (string, error)) error {
	fmt.Fprintf(out, "ready %s\n", address)
	profile := &profile{}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var reply string
		var err error
		if rest, ok := strings.CutPrefix(lines.Text(), "profile"); ok {
			reply, err = "ok", profile.toggle(strings.TrimSpace(rest))
		} else {
			reply, err = answer(lines.Text())
		}
		if err != nil {
			reply = "error: " + strings.ReplaceAll(err.Error(), "\n", " ")
		}
		fmt.Fprintln(out, reply)
	}
	return errors.Join(lines.Err(), profile.toggle(""))
}

// profile is a CPU profile that is being written, or none.
type profile struct{ file *os.File }

func (p *profile) toggle(name string) error {
	if p.file != nil {
		pprof.StopCPUProfile()
		err := p.file.Close()
		p.file = nil
		if err != nil {
			return err
		}
	}
	if name == "" {
		return nil
	}
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return errors.Join(err, file.Close())
	}
	p.file = file
	return nil
}
