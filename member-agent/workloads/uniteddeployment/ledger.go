package uniteddeployment

import (
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// written is a content that the API server took for a child, and the generation that the child had with it.
type written struct {
	content    meaning
	generation int64
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
//     not on every pass.
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
}

func newLedger() *ledger { return &ledger{owners: map[types.NamespacedName]*account{}} }

func (l *ledger) account(owner types.NamespacedName) *account {
	if l.owners[owner] == nil {
		l.owners[owner] = &account{map[types.UID]written{}, map[types.UID]created{}}
	}
	return l.owners[owner]
}

// known returns the writes of an owner's children.
func (l *ledger) known(owner types.NamespacedName) map[types.UID]written {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.account(owner).written)
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

// close drops an owner that is gone.
func (l *ledger) close(owner types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.owners, owner)
}
