package uniteddeployment

import (
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/flotilla-dev/flotilla/member-agent/kernel/freshness"
)

// written is a content that the API server took for a child, the generation that the child had with it, and the replicas.
type written struct {
	content    meaning
	generation int64
	replicas   int32
}

// created is a child that we made and that the cache may not know yet.
type created struct {
	kind kind
	name string
	uid  types.UID
}

// ledger remembers our own writes of children, so that
//   - while the cache lags, a child is neither made nor written a second time,
//   - a content that the API server stores in another way (a default or a webhook that we do not know) is written once,
//     not on every pass,
//   - a status that the cache does not show yet is not taken for one that was never written, nor a mark on a pod.
//
// It is lost with the process. Then a child of the second sort is written once more, which changes nothing, and a child
// that the cache does not know is met again by its name.
type ledger struct {
	mu     sync.Mutex
	owners map[types.NamespacedName]*account
}

// account is what is known of one owner's children, by their uid.
type account struct {
	written map[types.UID]written
	created map[types.UID]created
	marked  map[types.UID]string // by the uid of a pod, the value of LabelReservedPod

	self    types.UID // of the owner
	version string    // that its last status write gave it
	at      time.Time // of that write
}

func newLedger() *ledger { return &ledger{owners: map[types.NamespacedName]*account{}} }

func (l *ledger) account(owner types.NamespacedName) *account {
	if l.owners[owner] == nil {
		l.owners[owner] = &account{written: map[types.UID]written{}, created: map[types.UID]created{}, marked: map[types.UID]string{}}
	}
	return l.owners[owner]
}

// known returns the writes of an owner's children, and the marks on their pods.
func (l *ledger) known(owner types.NamespacedName) (map[types.UID]written, map[types.UID]string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.account(owner)
	return maps.Clone(a.written), maps.Clone(a.marked)
}

// reported records the version that a status write gave the owner.
func (l *ledger) reported(owner types.NamespacedName, uid types.UID, version string, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.account(owner)
	a.self, a.version, a.at = uid, version, now
}

// behind tells whether this version of the owner is older than our last status write. Versions that cannot be compared are
// not, and after freshness.RereadAfter none is: versions go back when a cluster is restored.
func (l *ledger) behind(owner types.NamespacedName, uid types.UID, version string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.account(owner)
	if a.version == "" || a.self != uid || now.Sub(a.at) >= freshness.RereadAfter {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(version, a.version)
	return err == nil && order < 0
}

// marks records a mark on a pod.
func (l *ledger) marks(owner types.NamespacedName, pod types.UID, value string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.account(owner).marked[pod] = value
}

// keepMarks drops the marks that the cache shows, and those of pods that are gone.
func (l *ledger) keepMarks(owner types.NamespacedName, pods map[types.UID][]*corev1.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	unseen := map[types.UID]bool{}
	marked := l.account(owner).marked
	for _, list := range pods {
		for _, pod := range list {
			if value, ok := marked[pod.UID]; ok && pod.Labels[LabelReservedPod] != value {
				unseen[pod.UID] = true
			}
		}
	}
	maps.DeleteFunc(marked, func(uid types.UID, _ string) bool { return !unseen[uid] })
}

// correct gives children that the cache shows as they were before our last write the replicas that we wrote.
func (l *ledger) correct(owner types.NamespacedName, children []child) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.account(owner).written
	for i := range children {
		c := &children[i]
		if last, ok := all[c.object.GetUID()]; ok && c.object.GetGeneration() < last.generation {
			c.replicas = last.replicas
		}
	}
}

// unseen returns the children that we made and that are not among those of the cache.
func (l *ledger) unseen(owner types.NamespacedName, cached []child) []created {
	l.mu.Lock()
	defer l.mu.Unlock()
	made := l.account(owner).created
	for i := range cached {
		delete(made, cached[i].object.GetUID())
	}
	return slices.Collect(maps.Values(made))
}

// wrote records a write of a child.
func (l *ledger) wrote(owner types.NamespacedName, child types.UID, w written) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.account(owner).written[child] = w
}

// made records a new child.
func (l *ledger) made(owner types.NamespacedName, c created) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.account(owner).created[c.uid] = c
}

// lost drops a child that is gone.
func (l *ledger) lost(owner types.NamespacedName, child types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.account(owner).written, child)
	delete(l.account(owner).created, child)
}

// keep drops the writes of children that are not among these.
func (l *ledger) keep(owner types.NamespacedName, children []child) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.account(owner).written, func(uid types.UID, _ written) bool {
		return !slices.ContainsFunc(children, func(c child) bool { return c.object.GetUID() == uid })
	})
}

// close drops an owner that is gone, and returns its uid; "" if nothing is known of it.
func (l *ledger) close(owner types.NamespacedName) (uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.owners[owner]; a != nil {
		uid = a.self
	}
	delete(l.owners, owner)
	return uid
}
