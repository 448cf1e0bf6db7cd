//go:build flotilla_clocks

package clocks

import (
	"os"
	"strings"
	"time"
	"unsafe"

	"k8s.io/utils/clock"
)

// Variable names the file that says by how much the clock is wrong, as "-7m"; one that is not there, or cannot be read,
// says not at all. It is read whenever the time is asked for, so that a clock steps when its file is replaced.
const Variable = "FLOTILLA_CLOCK_FILE"

// New returns the clock of the machine, moved by what the file says. Timers and tickers are those of the machine: a
// clock that is set moves none of them.
func New() clock.WithTickerAndDelayedExecution { return wrong{file: os.Getenv(Variable)} }

type wrong struct {
	clock.RealClock
	file string
}

// Now returns a time whose calendar is wrong; differences to other times of this process are right, as they are after
// the clock of a machine was set.
func (w wrong) Now() time.Time { return moved(time.Now(), w.offset()) }

// Since is the difference to a time of this process.
func (w wrong) Since(t time.Time) time.Duration { return w.Now().Sub(t) }

func (w wrong) offset() time.Duration {
	data, err := os.ReadFile(w.file)
	if err != nil {
		return 0
	}
	by, err := time.ParseDuration(strings.TrimSpace(string(data)))
	if err != nil {
		return 0
	}
	return by
}

// moved changes the calendar of a time and leaves its monotonic reading, for which package time has no function: Add
// moves both. It takes the reading from t into the sum, by the layout that time.Time has had since there are such
// readings; a test holds that it still has it.
func moved(t time.Time, by time.Duration) time.Time {
	sum := t.Add(by)
	type layout struct {
		wall uint64
		mono int64
		loc  *time.Location
	}
	// With a reading in both, mono is the reading, and wall the calendar.
	(*layout)(unsafe.Pointer(&sum)).mono = (*layout)(unsafe.Pointer(&t)).mono
	return sum
}
