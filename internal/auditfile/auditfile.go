package auditfile

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Manifest describes a file.
type Manifest struct {
	// Day is the part of the record: a day, or another name for it.
	Day string `json:"day"`
	// File is the name of the file, which is beside the manifest.
	File string `json:"file"`
	// Rows is how many events it has, one in a line.
	Rows int64 `json:"rows"`
	// SHA256 is that of the file, LinesSHA256 that of its lines, each with its
	// newline, before compression. Both are in hex.
	SHA256      string `json:"sha256"`
	LinesSHA256 string `json:"lines_sha256"`
	// Program is the version of what wrote it.
	Program    string    `json:"program"`
	ExportedAt time.Time `json:"exported_at"`
}

// ErrChanged: a file or a manifest is not as it was written.
var ErrChanged = errors.New("the export is damaged or was changed")

// Name returns the name of the file of a day, and of its manifest.
func Name(day string) (file, manifest string) {
	return "audit_events_" + day + ".jsonl.gz", "audit_events_" + day + ".manifest.json"
}

// Write writes the lines that fill hands over (without newlines) into the
// folder, which it makes if it must, and returns the manifest. Day, Program and
// ExportedAt are taken from m. A file of the same day is replaced when the new
// one is complete; when something fails it stays.
func Write(dir string, m Manifest, fill func(each func(line []byte) error) error) (Manifest, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return Manifest{}, err
	}
	var manifest string
	m.File, manifest = Name(m.Day)
	err := replace(dir, m.File, func(w io.Writer) error {
		file, lines := sha256.New(), sha256.New()
		packed := gzip.NewWriter(io.MultiWriter(w, file))
		text := bufio.NewWriterSize(io.MultiWriter(packed, lines), 1<<16)
		m.Rows = 0
		err := fill(func(line []byte) error {
			m.Rows++
			_, err := text.Write(line)
			return errors.Join(err, text.WriteByte('\n'))
		})
		if err := errors.Join(err, text.Flush(), packed.Close()); err != nil {
			return err
		}
		m.SHA256, m.LinesSHA256 = hexSum(file), hexSum(lines)
		return nil
	})
	if err != nil {
		return Manifest{}, err
	}
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return Manifest{}, err
	}
	return m, replace(dir, manifest, func(w io.Writer) error {
		_, err := w.Write(append(text, '\n'))
		return err
	})
}

// replace writes a file under another name, brings it to the disk, and gives it
// its name.
func replace(dir, name string, write func(io.Writer) error) error {
	file, err := os.CreateTemp(dir, "."+name+".*.part")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name()) // it is gone from there when all went well
	buffered := bufio.NewWriterSize(file, 1<<16)
	if err := write(buffered); err != nil {
		return errors.Join(err, file.Close())
	}
	if err := errors.Join(buffered.Flush(), file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Rename(file.Name(), filepath.Join(dir, name)); err != nil {
		return err
	}
	return syncDir(dir)
}

// syncDir brings names to the disk.
func syncDir(dir string) error {
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// Read returns the manifest of a day and looks whether its file is there. The
// error is fs.ErrNotExist if one of the two is not, and ErrChanged when the
// manifest cannot be one of the day.
func Read(dir, day string) (Manifest, error) {
	file, manifest := Name(day)
	text, err := os.ReadFile(filepath.Join(dir, manifest))
	if err != nil {
		return Manifest{}, err
	}
	var m Manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return Manifest{}, fmt.Errorf("%w: %s: %w", ErrChanged, manifest, err)
	}
	if m.Day != day || m.File != file {
		return Manifest{}, fmt.Errorf("%w: %s is of day %q and file %q", ErrChanged, manifest, m.Day, m.File)
	}
	_, err = os.Stat(filepath.Join(dir, file))
	return m, err
}

// Verify reads the file of a day and compares it with its manifest, which it
// returns. It takes nothing from the manifest that it has not seen in the file
// but who wrote it when. Errors are those of Read; ErrChanged also when the file
// is not what the manifest says.
func Verify(dir, day string) (m Manifest, linesSum [sha256.Size]byte, err error) {
	m, err = Read(dir, day)
	if err != nil {
		return Manifest{}, linesSum, err
	}
	file, err := os.Open(filepath.Join(dir, m.File))
	if err != nil {
		return Manifest{}, linesSum, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	sum, lines, rows := sha256.New(), sha256.New(), new(lineCounter)
	// Buffered, or gzip would buffer by itself and read on for us.
	raw := bufio.NewReaderSize(io.TeeReader(file, sum), 1<<16)
	unpacked, err := gzip.NewReader(raw)
	if err == nil {
		_, err = io.Copy(io.MultiWriter(lines, rows), unpacked) //nolint:gosec // It is counted, not kept.
	}
	if _, restErr := io.Copy(io.Discard, raw); restErr != nil { // what is not gzip belongs to the file, too
		return Manifest{}, linesSum, restErr
	}
	switch {
	case hexSum(sum) != m.SHA256:
		err = fmt.Errorf("%w: %s has another SHA-256 than its manifest says", ErrChanged, m.File)
	case err != nil:
		err = fmt.Errorf("%w: %s: %w", ErrChanged, m.File, err)
	case hexSum(lines) != m.LinesSHA256 || int64(*rows) != m.Rows:
		err = fmt.Errorf("%w: %s has other lines than its manifest says", ErrChanged, m.File)
	}
	lines.Sum(linesSum[:0])
	return m, linesSum, err
}

// lineCounter counts newlines.
type lineCounter int64

func (c *lineCounter) Write(p []byte) (int, error) {
	*c += lineCounter(bytes.Count(p, []byte{'\n'}))
	return len(p), nil
}

func hexSum(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }

// IsMissing reports whether an error of Read or Verify means that there is no
// export.
func IsMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
