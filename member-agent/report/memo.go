package report

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/apply"
)

// memo is what is kept of a Work between two reports. Only the Work's worker uses its fields.
type memo struct {
	uid     types.UID
	sentAt  time.Time
	version string // of the Work, after our last report
	status  work.WorkStatus
	// order that the last report answered, as generation of the Work and sequence.
	generation, sequence int64
	// finished is the newest order that was reported to be done.
	finished int64
	// settled is the order by which nothing was left to be done when it was reported: later reports are about something
	// else.
	settled int64
	// restartsUnkept is the session of a hub of an earlier version: it has not kept how many pods have still to restart.
	restartsUnkept int64
	// unlike is when reasons of pods were seen first that the last report does not have, zero if it has them. reasonsAt is
	// when reasons left last.
	unlike, reasonsAt time.Time
	// unkept is the session of the hub whose definition of Works does not keep reasons of pods, 0 for none.
	unkept int64
}

// cacheLag is how long a report that was sent and is not seen in the cache counts as not seen yet. After that the
// cache is right: the hub was restored from a backup, and has forgotten it.
const cacheLag = 10 * time.Second

func (r *Reconciler) forget(name types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.works, name)
}

// recall returns what is kept of the Work. Its status is the Work's own, unless the cache has not seen our last
// report.
func (r *Reconciler) recall(name types.NamespacedName, w *work.Work) *memo {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.works[name]
	if m == nil || m.uid != w.UID {
		m = &memo{uid: w.UID}
		r.works[name] = m
	}
	order, err := resourceversion.CompareResourceVersion(w.ResourceVersion, m.version)
	if m.version == "" || err != nil || order >= 0 || r.Clock.Since(m.sentAt) > cacheLag {
		m.status = w.Status
	}
	return m
}

// knows reports whether the last report says what a status says, or the status says nothing yet.
func (m *memo) knows(outcome apply.Outcome, status work.WorkStatus) bool {
	return Same(m.status, status) || outcome.Held && m.status.Report == nil && len(status.ManifestStatuses) == 0
}
