package pods

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// position is where the reading of a log was left: how many lines of its newest second were printed. A log can be read
// again from a second only, so the lines of that second come twice. It is pure.
type position struct {
	// newest is the time of the newest line that was printed, zero for none.
	newest time.Time
	// lines is how many of the printed lines are of that second or later.
	lines int
	// first is the time of the first line that was printed, zero for none.
	first time.Time
	// skip is how many lines of the log are still those that were printed; resumed that the log is read again.
	skip    int
	resumed bool
	// seek: the first line that was printed is searched for; the lines before it are not wanted.
	seek bool
}

// resume returns the time to read the log from again, nil if no line of it was printed.
func (p *position) resume() *metav1.Time {
	if p.newest.IsZero() {
		return nil
	}
	p.skip, p.resumed = p.lines, true
	p.seek = p.first.Truncate(time.Second).Equal(p.second())
	return &metav1.Time{Time: p.second()}
}

func (p *position) second() time.Time { return p.newest.Truncate(time.Second) }

// take reports whether a line of that time was not printed yet, and counts it as printed. The lines that were printed
// are the first of their second: a log keeps its order, even where times in it do not.
func (p *position) take(at time.Time) bool {
	if p.resumed && at.Before(p.second()) {
		return false
	}
	if p.seek && !at.Equal(p.first) && !at.After(p.newest) {
		return false
	}
	p.seek = false
	if p.skip > 0 && !at.After(p.newest) {
		p.skip--
		return false
	}
	p.skip = 0
	if p.first.IsZero() {
		p.first = at
	}
	switch {
	case at.Truncate(time.Second).After(p.second()):
		p.newest, p.lines, p.resumed = at, 1, false
	case !at.Before(p.second()):
		p.lines++
		if at.After(p.newest) {
			p.newest = at
		}
	}
	return true
}
