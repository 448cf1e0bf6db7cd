package contact

import (
	"testing"
	"time"
)

func TestNews(t *testing.T) {
	n, at := NewNews(), time.Unix(100, 0)
	if !n.Of("east").IsZero() {
		t.Error("a member that was never heard has news")
	}
	n.Hear("east", at)
	n.Hear("east", at.Add(-time.Second)) // two that hear at once may tell it in the other order
	if got := n.Of("east"); !got.Equal(at) {
		t.Errorf("heard last at %s, want %s", got, at)
	}
	n.Forget("east")
	if !n.Of("east").IsZero() {
		t.Error("a member that is forgotten has news")
	}
	var none *News
	none.Hear("east", at)
	none.Forget("east")
	if !none.Of("east").IsZero() {
		t.Error("no memory remembers")
	}
}
