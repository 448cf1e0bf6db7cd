package store

import (
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

func TestWritten(t *testing.T) {
	clk := clocktesting.NewFakePassiveClock(time.Unix(100, 0))
	w := NewWritten[string](clk)
	if !w.Seen("a", "") || !w.Seen("a", "5") {
		t.Error("what was never written holds a reader up")
	}
	w.Wrote("a", "10")
	if w.Seen("a", "") || w.Seen("a", "9") {
		t.Error("a cache that lacks the write is trusted")
	}
	if !w.Seen("a", "10") || !w.Seen("a", "9") {
		t.Error("a cache that has seen the write is not trusted")
	}
	w.Wrote("a", "20")
	clk.SetTime(clk.Now().Add(writtenExpires))
	if !w.Seen("a", "") {
		t.Error("an object that somebody deleted at once holds its reader up for ever")
	}
}
