package link

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
)

const (
	// inventoryEvery is the time between two looks at the amounts of capacity, which no event announces.
	inventoryEvery = 30 * time.Second
	// inventoryPause is the least time between two writes: a rack that comes up is a few reports, not one per node.
	inventoryPause = time.Second
	// versionEvery is how often the member is asked for its version.
	versionEvery = 5 * time.Minute
	// writeTimeout ends a write to a hub that hangs.
	writeTimeout = 10 * time.Second
)

// inventory is what the loop of runInventory remembers.
type inventory struct {
	written    *topology.MemberCluster // as our last write left it
	capacityAt time.Time               // when the amounts were written last
	version    string
	versionAt  time.Time
	advice     standing // what the log was told last
	advisedAt  time.Time
}

// runInventory keeps MemberCluster.status true: at once when a node comes, goes or changes its readiness or place, and
// every 30 s for amounts.
func (l *Link) runInventory(ctx context.Context) {
	if err := l.watchNodes(ctx); err != nil {
		l.config.Log.Error(err, "Nodes are looked at every 30 s only")
	}
	state := &inventory{}
	timer := l.config.Clock.NewTimer(inventoryEvery)
	defer timer.Stop()
	for {
		next := wait.Jitter(inventoryEvery, leaseJitter) // 30 to 33 s: a fleet that started together does not report together
		wrote, err := l.takeInventory(ctx, state)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			l.heardOf(err)
			next = wait.Jitter(leaseRetry, retryJitter)
		case state.advice == unknown:
			next = leaseRetry // no event tells that the hub was heard and has no such MemberCluster
		}
		if due := state.capacityAt.Add(inventoryEvery).Sub(l.config.Clock.Now()); err == nil && due > 0 {
			next = min(next, wait.Jitter(due, leaseJitter)) // a look in between, for a node, puts off none at the amounts
		}
		if wrote {
			select {
			case <-ctx.Done():
				return
			case <-l.config.Clock.After(inventoryPause):
			}
		}
		timer.Reset(next)
		select {
		case <-ctx.Done():
			return
		case <-l.surveyed:
		case <-timer.C():
		}
	}
}

// takeInventory looks, compares and writes once if something is to be told. It returns whether it wrote.
func (l *Link) takeInventory(ctx context.Context, state *inventory) (bool, error) {
	standing, member := l.standing(ctx)
	l.advise(ctx, standing, state)
	switch standing {
	case unknown:
		return false, nil
	case refused:
		return false, l.refuse(ctx, member, *l.clusterID.Load())
	}
	status, err := l.look(ctx, state)
	if err != nil {
		l.config.Log.Info("Cannot look at the member; trying again", "err", err.Error())
		return false, nil
	}
	if state.written != nil && state.written.UID == member.UID &&
		!atLeast(member.ResourceVersion, state.written.ResourceVersion) {
		member = state.written // the cache has not seen our own write yet
	}
	l.orphaned(&status, member)
	now := l.config.Clock.Now()
	due := now.Sub(state.capacityAt) >= inventoryEvery
	if equality.Semantic.DeepEqual(facts(member.Status), facts(status)) &&
		(!due || !capacityMoved(member.Status.Zones, status.Zones)) {
		return false, nil
	}
	if err := l.writeStatus(ctx, member, status); err != nil {
		return false, err
	}
	state.written, state.capacityAt = member, now
	return true, nil
}

// look reads nodes, pods and versions of the member.
func (l *Link) look(ctx context.Context, state *inventory) (topology.MemberClusterStatus, error) {
	var none topology.MemberClusterStatus
	surveyed := metav1.NewMicroTime(l.config.Clock.Now()) // before the lists: what is told to be there by then is in them
	nodes := &corev1.NodeList{}
	if err := l.member.GetCache().List(ctx, nodes, client.UnsafeDisableDeepCopy); err != nil {
		return none, fmt.Errorf("list nodes of the member: %w", err)
	}
	pods, err := podset.All(ctx, l.member.GetCache())
	if err != nil {
		return none, fmt.Errorf("read the member: %w", err)
	}
	if now := l.config.Clock.Now(); state.version == "" || now.Sub(state.versionAt) >= versionEvery {
		versions, err := discovery.NewDiscoveryClientForConfigAndClient(l.member.GetConfig(), l.member.GetHTTPClient())
		if err != nil {
			return none, fmt.Errorf("ask the member for its version: %w", err)
		}
		info, err := versions.ServerVersionWithContext(ctx)
		if err != nil {
			return none, fmt.Errorf("ask the member for its version: %w", err)
		}
		state.version, state.versionAt = info.GitVersion, now
	}
	if !slices.ContainsFunc(nodes.Items, isReady) {
		l.sessions.noteNoNodes(l.config.Clock.Now())
	}
	status := survey(nodes.Items, pods)
	status.SurveyedAt = &surveyed
	status.ClusterID = *l.clusterID.Load()
	status.KubernetesVersion, status.AgentVersion = state.version, l.config.AgentVersion
	return status, nil
}

// writeStatus writes the agent's fields and no others; member becomes what the hub answers.
func (l *Link) writeStatus(
	ctx context.Context,
	member *topology.MemberCluster,
	status topology.MemberClusterStatus,
) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	patch, err := json.Marshal(map[string]any{"status": inventoried(status)})
	if err != nil {
		return err
	}
	err = l.client.Status().
		Patch(ctx, member, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(fieldManager))
	if err != nil {
		return fmt.Errorf("write status of MemberCluster %s: %w", member.Name, err)
	}
	return nil
}

// inventoried are the fields of the status that the inventory writes. Every one is named, also the empty ones: a merge
// patch removes only what it names.
func inventoried(status topology.MemberClusterStatus) map[string]any {
	return map[string]any{
		"clusterID":         status.ClusterID,
		"region":            status.Region,
		"zones":             status.Zones,
		"surveyedAt":        status.SurveyedAt,
		"zoneNames":         status.ZoneNames,
		"nodes":             status.Nodes,
		"kubernetesVersion": status.KubernetesVersion,
		"agentVersion":      status.AgentVersion,
		"orphaned":          status.Orphaned,
		"orphans":           status.Orphans,
	}
}

// advise tells an operator what to do when the hub does not take this cluster: on each change, and from time to time.
func (l *Link) advise(ctx context.Context, now standing, state *inventory) {
	if now == unknown && (l.clusterID.Load() == nil || !l.heard(ctx)) {
		state.advice = unknown // too early to say
		return
	}
	at := l.config.Clock.Now()
	if now == state.advice && at.Sub(state.advisedAt) < repeatEvery {
		return
	}
	changed := now != state.advice
	state.advice, state.advisedAt = now, at
	log := l.config.Log.WithValues("cluster", l.config.ClusterName)
	switch now {
	case unknown:
		log.Info(
			"The hub has not told of a MemberCluster with this name; create it there with spec.accepted: true, or correct " +
				"--cluster-name; the agent keeps looking",
		)
	case waiting:
		log.Info(
			"The hub has not accepted this cluster; set spec.accepted: true in its MemberCluster",
			"clusterID",
			*l.clusterID.Load(),
		)
	case refused:
		log.Info(
			"The hub has given this name to another cluster, so nothing is executed here; start this agent with another "+
				"--cluster-name, or delete the MemberCluster and let this cluster join again",
			"clusterID",
			*l.clusterID.Load(),
		)
	case pinned:
		if changed {
			log.Info("The hub has accepted this cluster")
		}
	}
}

// watchNodes wakes the inventory for changes of nodes that matter; a kubelet's heartbeats do not.
func (l *Link) watchNodes(ctx context.Context) error {
	informer, err := l.member.GetCache().GetInformer(ctx, &corev1.Node{})
	if err != nil {
		return fmt.Errorf("watch nodes of the member: %w", err)
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { wake(l.surveyed) },
		UpdateFunc: func(before, after any) {
			a, aOK := before.(*corev1.Node)
			b, bOK := after.(*corev1.Node)
			if !aOK || !bOK || nodeMatters(a, b) {
				wake(l.surveyed)
			}
		},
		DeleteFunc: func(any) { wake(l.surveyed) },
	})
	return err
}

// nodeMatters tells whether the difference between two versions of a node is one that is reported at once.
func nodeMatters(a, b *corev1.Node) bool {
	return usable(a) != usable(b) ||
		a.Labels[corev1.LabelTopologyZone] != b.Labels[corev1.LabelTopologyZone] ||
		a.Labels[corev1.LabelTopologyRegion] != b.Labels[corev1.LabelTopologyRegion]
}

// atLeast tells whether the version a of an object is b or newer. Versions that cannot be compared count as new: then
// the worst is one write more.
func atLeast(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err != nil || order >= 0
}
