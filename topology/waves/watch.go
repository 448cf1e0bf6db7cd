package waves

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// unsettle forgets since when the wave is settled.
func (w *walk) unsettle() {
	w.p.Settled, w.p.Unmet, w.p.Watched, w.p.Unheard = nil, nil, nil, false
	w.p.Checks, w.p.Jobs = nil, nil // what was proven of pods that are not there any more proves nothing
}

// unheard returns a member of the wave of which there is no news, "" for none. One that is given up is not waited for.
func (w *walk) unheard(wave *topology.Wave, ceiling []int32) string {
	for i := range w.Places {
		if p := &w.Places[i]; p.Unheard && !p.Lost && w.reaches(wave, ceiling, i) {
			return p.Cluster
		}
	}
	return ""
}

// unproven returns a member of the wave that was not heard since the end of its soak, "" for none: what became of its
// pods until then is not known yet. One that is given up is not waited for.
func (w *walk) unproven(wave *topology.Wave, ceiling []int32) string {
	soak := durationOf(wave.Soak, 0)
	if soak == 0 {
		return "" // what settled the wave is news enough
	}
	end := w.p.Settled.Add(soak)
	for i := range w.Places {
		if p := &w.Places[i]; !p.Lost && w.reaches(wave, ceiling, i) && p.News.Before(end) {
			return p.Cluster
		}
	}
	return ""
}

// watch puts off since when the wave is settled by the time in which nobody watched it: in which the hub did not run or
// was cut off, or a member of the wave was not heard of. How long a hub watched is noted now and then, so that the next
// one knows. What has soaked has soaked, once each of its members was heard since (proven).
func (w *walk) watch(wave *topology.Wave, unheard, proven bool) {
	until := w.p.Settled.Time
	if w.p.Watched != nil && w.p.Watched.After(until) {
		until = w.p.Watched.Time
	}
	soaked := w.p.Settled.Add(durationOf(wave.Soak, 0))
	heard := w.Heard.Truncate(time.Second)
	switch {
	case !until.Before(soaked), unheard && w.p.Unheard:
	case unheard:
		if last := w.at.Add(-newsAge); last.After(until) {
			until = last
		}
		w.p.Watched, w.p.Unheard = &metav1.Time{Time: until}, true
	case w.p.Unheard:
		w.putOff(until, w.at.Time)
	case heard.After(until):
		w.putOff(until, heard)
	case !w.at.Time.Before(soaked) && proven,
		w.at.Before(&metav1.Time{Time: soaked}) && w.at.Sub(until) >= noteEvery(wave):
		w.p.Watched = &w.at
	}
}

// putOff leaves out the time in which nobody watched.
func (w *walk) putOff(from, to time.Time) {
	settled := w.p.Settled.Add(to.Sub(from))
	w.p.Settled, w.p.Watched, w.p.Unheard = &metav1.Time{Time: settled}, &metav1.Time{Time: to}, false
}

// noteEvery is how often it is noted that a wave is watched while it soaks: a hub that is restarted has no more than
// that to watch again.
func noteEvery(wave *topology.Wave) time.Duration {
	return max(durationOf(wave.Soak, 0)/10, 5*time.Minute)
}
