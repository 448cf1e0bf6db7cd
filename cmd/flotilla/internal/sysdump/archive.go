package sysdump

import (
	"archive/tar"
	"compress/gzip"
	"fmt"
	"io"
	"path"
	"strings"
	"time"
)

// archive is the file that is written. What could not be read is noted in it.
type archive struct {
	root    string
	now     time.Time
	gzip    *gzip.Writer
	tar     *tar.Writer
	err     error // of a write; the rest is not written then
	missing []string
	notes   []string
}

func newArchive(out io.Writer, root string, now time.Time) *archive {
	zipped := gzip.NewWriter(out)
	return &archive{root: root, now: now, gzip: zipped, tar: tar.NewWriter(zipped)}
}

// add writes a file.
func (a *archive) add(name string, data []byte) {
	if a.err != nil {
		return
	}
	header := &tar.Header{
		Name:    path.Join(a.root, name),
		Mode:    0o600,
		Size:    int64(len(data)),
		ModTime: a.now,
		Format:  tar.FormatPAX,
	}
	if a.err = a.tar.WriteHeader(header); a.err == nil {
		_, a.err = a.tar.Write(data)
	}
}

// lacks notes what could not be read, and why.
func (a *archive) lacks(what string, err error) {
	a.missing = append(a.missing, fmt.Sprintf("%s: %v", what, err))
}

// note notes what a reader should know that is no failure.
func (a *archive) note(format string, args ...any) {
	a.notes = append(a.notes, fmt.Sprintf(format, args...))
}

// close writes the summary, and ends the file.
func (a *archive) close(summary string) error {
	var text strings.Builder
	text.WriteString(summary)
	for _, list := range []struct {
		title string
		lines []string
	}{{"Notes", a.notes}, {"Could not be read", a.missing}} {
		if len(list.lines) > 0 {
			fmt.Fprintf(&text, "\n%s:\n- %s\n", list.title, strings.Join(list.lines, "\n- "))
		}
	}
	a.add("summary.txt", []byte(text.String()))
	for _, end := range []func() error{a.tar.Close, a.gzip.Close} {
		if err := end(); a.err == nil {
			a.err = err
		}
	}
	if a.err != nil {
		return fmt.Errorf("write the archive: %w", a.err)
	}
	return nil
}
