package privatepg

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
)

const (
	// maxLog is the size at which the next start begins a new log.
	maxLog = 10 << 20
	// quoted bounds how much of a log an error repeats.
	quotedBytes = 8 << 10
	quotedLines = 12
)

// openLog opens a server log for appending. A large one is set aside first;
// one older log is kept.
func openLog(path string) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && info.Size() > maxLog {
		if err := os.Rename(path, path+".1"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
}

// logSince returns the end of what was written to a log after an offset.
func logSince(path string, offset int64) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return ""
	}
	start := max(offset, info.Size()-quotedBytes)
	text, err := io.ReadAll(io.NewSectionReader(file, start, quotedBytes))
	if err != nil {
		return ""
	}
	return string(text)
}

// quote formats the last lines of a program's output for the end of an error
// message.
func quote(output string) string {
	output = strings.TrimSpace(output)
	if output == "" {
		return ""
	}
	lines := strings.Split(output, "\n")
	lines = lines[max(0, len(lines)-quotedLines):]
	return "\n  | " + strings.Join(lines, "\n  | ")
}
