package sidecarset

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/inject"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/revision"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/rollout"
)

// memory is what a SidecarSet remembers between passes.
type memory struct {
	// notUpgradable is what the last event said.
	notUpgradable string
	// missing are the pods without their sidecars, as the last scan found them.
	missing []types.NamespacedName
	scanned time.Time
	// evicted are the pods that were evicted, by the uids of their owners, until they are replaced.
	evicted map[types.UID]eviction
	// useless are the workloads whose last eviction has not helped, and what they and the SidecarSet were at that time.
	useless map[types.UID]version
	// refused are the pods that could not be disrupted, by their uids.
	refused map[types.UID]refusal
	// ahead is what is known of images that are pulled ahead.
	ahead aheadState
	// recreated is when pods were to be evicted last, stays why some were not.
	recreated time.Time
	stays     []string
}

type pass = workload.Pass[*v1beta1.SidecarSet, memory]

// scope is one pass over one SidecarSet.
type scope struct {
	*pass
	set       *v1beta1.SidecarSet
	hashes    revision.Hashes
	allowed   inject.Allowed
	pods      []*corev1.Pod
	revisions []*appsv1.ControllerRevision
	latest    *appsv1.ControllerRevision
	collision *int32
	plan      rollout.Plan
	// held are pods that must stay as they are in this pass, waits says why.
	held  map[types.UID]bool
	waits []string
	// missing are the pods without their sidecars, progressed is what the status says of them.
	missing    []*corev1.Pod
	progressed *v1beta1.SidecarSetProgress
	// recreate: pods are evicted in this pass. stays says why pods were not, evicted names those that were. inFlight are
	// workloads that have not replaced one, absent counts those that have no pod in its place, workloads are those read.
	recreate       bool
	stays, evicted []string
	inFlight       map[types.UID]bool
	absent         int
	workloads      map[types.UID]*rollout.Workload
	worked         bool
	updated        int
}
