package auditfile

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// maxLine bounds a line: an event has a few texts of some kilobytes.
const maxLine = 1 << 20

// Lines hands the lines of the file of a day over, without their newlines, one
// after the other; a line is valid during the call only. It takes no notice of the
// manifest: Verify does. The error is ErrChanged when the file is not compressed
// lines, and that of each when it fails.
func Lines(dir, day string, each func(line []byte) error) (err error) {
	name, _ := Name(day)
	file, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	unpacked, err := gzip.NewReader(bufio.NewReaderSize(file, 1<<16))
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrChanged, name, err)
	}
	lines := bufio.NewScanner(unpacked)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		if err := each(lines.Bytes()); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrChanged, name, err)
	}
	return nil
}

// Days returns the days that a folder has files or manifests of, sorted.
func Days(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var days []string
	for _, entry := range entries {
		day, ok := strings.CutPrefix(entry.Name(), "audit_events_")
		if !ok {
			continue
		}
		for _, suffix := range []string{".jsonl.gz", ".manifest.json"} {
			if day, ok := strings.CutSuffix(day, suffix); ok && !slices.Contains(days, day) {
				days = append(days, day)
			}
		}
	}
	slices.Sort(days)
	return days, nil
}
