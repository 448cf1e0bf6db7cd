package pods

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/console"
)

const (
	// longestLine is how long a line can be that is kept together. A longer one is printed as several.
	longestLine = 1 << 20
	// readAhead is how much of a log is read before it is printed, and fullBatch how much is printed at once.
	readAhead, fullBatch = 16 << 10, 32 << 10
)

// lineReader reads lines. It keeps no more than a line.
type lineReader struct {
	in   *bufio.Reader
	long []byte
	// open: the last piece was not the end of its line.
	open bool
}

func newLineReader(in io.Reader) *lineReader {
	return &lineReader{in: bufio.NewReaderSize(in, readAhead)}
}

// next returns a line with its end, or a piece of one that is too long; begins reports if it is the beginning of a
// line. Before an error it returns what there is of a line. The line is valid until the next call.
func (l *lineReader) next() (line []byte, begins bool, err error) {
	begins = !l.open
	if cap(l.long) > fullBatch {
		l.long = nil // long lines are rare
	}
	l.long = l.long[:0]
	for {
		part, err := l.in.ReadSlice('\n')
		full := errors.Is(err, bufio.ErrBufferFull)
		if full && len(l.long)+len(part) < longestLine {
			l.long = append(l.long, part...)
			continue
		}
		if len(l.long) > 0 {
			l.long = append(l.long, part...)
			part = l.long
		}
		l.open = full
		if full {
			err = nil
		}
		return part, begins, err
	}
}

// ready reports whether the next line is there without waiting.
func (l *lineReader) ready() bool {
	there, _ := l.in.Peek(l.in.Buffered()) // as much as is there does not fail
	return bytes.IndexByte(there, '\n') >= 0
}

// lines lets several write whole lines to one writer, which may be slow: then they wait.
type lines struct {
	mu  sync.Mutex
	out io.Writer
}

// write writes lines that are whole.
func (l *lines) write(whole []byte) error {
	if len(whole) == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.out.Write(whole); err != nil {
		return fmt.Errorf("write the log: %w", err)
	}
	return nil
}

// addLine appends a line after its prefix. A line with a prefix always ends: the next one is another pod's.
func addLine(batch []byte, prefix string, line []byte) []byte {
	batch = append(append(batch, prefix...), line...)
	if prefix != "" && (len(line) == 0 || line[len(line)-1] != '\n') {
		batch = append(batch, '\n')
	}
	return batch
}

// firstColour and lastColour are the colours of prefixes, which terminals show on light and on dark ground.
const firstColour, lastColour = 31, 36

// prefixOf returns how lines of a log begin: with the member, the pod, and the container where the pod has
// several and the user names none.
func prefixOf(member string, pod *corev1.Pod, container string, several, coloured bool) string {
	name := member + "/" + pod.Name
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(name)) // it does not fail
	if several {
		name += "/" + container
	}
	if !coloured {
		return name + " "
	}
	colour := firstColour + hash.Sum32()%(lastColour-firstColour+1)
	return fmt.Sprintf("\x1b[%dm%s\x1b[0m ", colour, name)
}

// coloured reports whether text for a writer has colours. when is auto, always or never.
func coloured(when string, out io.Writer) (bool, error) {
	switch when {
	case "auto":
		return os.Getenv("NO_COLOR") == "" && console.IsTerminal(out), nil
	case "always":
		return true, nil
	case "never":
		return false, nil
	}
	return false, console.Usagef("--color %q: it can be auto, always or never", when)
}
