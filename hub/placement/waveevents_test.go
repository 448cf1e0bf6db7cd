package placement

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// TestHappened: each step of the waves of an update is told once, with what the wave waits for; a decision that changes
// nothing of them tells nothing.
func TestHappened(t *testing.T) {
	at := metav1.NewTime(time.Unix(100, 0))
	wave := func(number int32, change ...func(*topology.WaveProgress)) *topology.WaveProgress {
		p := &topology.WaveProgress{Number: number, Of: 2, Name: "canary", Since: at, From: "one"}
		for _, c := range change {
			c(p)
		}
		return p
	}
	settled := func(p *topology.WaveProgress) { p.Settled = &at }
	failed := func(p *topology.WaveProgress) { p.Failed = &topology.WaveFailed{At: at, Message: "too many errors"} }
	unmet := func(p *topology.WaveProgress) { p.Unmet = &at }
	held := func(p *topology.WaveProgress) { p.Held = true }
	unheard := func(p *topology.WaveProgress) { p.Unheard = true }
	noted := func(p *topology.WaveProgress) { p.Watched = &at }
	back := func(p *topology.WaveProgress) { p.RolledBack = "two" }
	for _, test := range []struct {
		before, after         *topology.WaveProgress
		revision, kind, level string
	}{
		{nil, nil, "one", "", ""},
		{nil, nil, "two", "", ""},
		{nil, wave(1), "two", "WaveBegan", "Normal"},
		{wave(1), wave(1), "one", "", ""},
		{wave(1), wave(1), "two", "WaveBegan", "Normal"},
		{wave(1), wave(1, settled), "one", "WaveSettled", "Normal"},
		{wave(1, settled), wave(1, settled, noted), "one", "", ""},
		{wave(1, settled), wave(1), "one", "WaveUnsettled", "Warning"},
		{wave(1, settled), wave(1, settled, unmet), "one", "WaveCheckUnmet", "Warning"},
		{wave(1, settled), wave(1, settled, unheard), "one", "WaveUnheard", "Warning"},
		{wave(1, settled, unmet), wave(1, settled, unmet, failed), "one", "WaveFailed", "Warning"},
		{wave(1, settled, failed), wave(1, settled, failed), "one", "", ""},
		{wave(1, settled, failed), wave(1), "one", "WaveTriedAgain", "Normal"},
		{wave(1, failed), wave(1, failed, back), "two", "WaveRolledBack", "Warning"},
		{wave(1, failed, back), wave(1, failed, back), "one", "", ""},
		{wave(1, failed, back), wave(1), "two", "WaveBegan", "Normal"},
		{wave(1), wave(1, held), "one", "WaveHeld", "Normal"},
		{wave(1, held), wave(1), "one", "WaveResumed", "Normal"},
		{wave(1, settled), wave(2), "one", "WaveBegan", "Normal"},
		{wave(2, settled), wave(3), "one", "WavesOver", "Normal"},
		{wave(3), nil, "one", "", ""},
		{wave(1), nil, "two", "WavesLeft", "Normal"},
	} {
		h := happened(&topology.WorkloadPlacementSpec{Revision: "one", Wave: test.before},
			&topology.WorkloadPlacementSpec{Revision: test.revision, Wave: test.after}, "wave 1 of 2")
		if h == nil {
			h = &happening{}
		}
		if h.kind != test.kind || h.level != test.level || (h.kind == "") != (h.sentence == "") {
			t.Errorf("from %+v to %+v: %+v, want %s %s", test.before, test.after, h, test.level, test.kind)
		}
	}
}
