package apply

import (
	"slices"
	"time"
)

const (
	// contestWindow and contestAfter: an object that was corrected so often within the window is contested by another writer.
	contestWindow = time.Minute
	contestAfter  = 3
	// pauseFirst is the pause before the next correction of a contested object. It doubles with each one, up to pauseMost.
	pauseFirst = 5 * time.Second
	pauseMost  = time.Minute
)

// contest counts the corrections of one object. The zero value has none.
type contest struct {
	// corrected are the times of the last corrections, oldest first.
	corrected []time.Time
	// repeats counts the corrections since the object is contested.
	repeats int
	// until is when the contest is over, unless the object has to be corrected before.
	until time.Time
	// writer and fields are who writes what; message says so. They change only with one another, so that values which change
	// all the time are no news.
	writer, fields, message string
}

// add counts a correction at now, and returns how long the next one is to wait: 0 for an object that is not contested.
func (c *contest) add(now time.Time) time.Duration {
	if !c.active(now) {
		c.corrected = slices.DeleteFunc(c.corrected, func(at time.Time) bool { return now.Sub(at) >= contestWindow })
		if c.repeats > 0 {
			*c = contest{}
		}
		c.corrected = append(c.corrected, now)
		if len(c.corrected) < contestAfter {
			return 0
		}
	}
	pause := min(pauseMost, pauseFirst<<min(c.repeats, 10))
	c.repeats++
	c.until = now.Add(pause + contestWindow)
	return pause
}

// active reports whether the object is contested.
func (c *contest) active(now time.Time) bool { return now.Before(c.until) }

// name says who writes what.
func (c *contest) name(writer, fields, message string) {
	if c.writer != writer || c.fields != fields {
		c.writer, c.fields, c.message = writer, fields, message
	}
}
