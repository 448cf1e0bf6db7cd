package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/daemons"
	"github.com/flotilla-dev/flotilla/e2e/faultproxy"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/e2e/harness"
	"github.com/flotilla-dev/flotilla/e2e/judge"
)

// faults makes the faults of a run.
type faults struct {
	h         *harness.Harness
	recorder  *recorder
	proxies   map[string]*faultproxy.Proxy // by name
	daemons   map[string]*daemons.Member   // by member
	nodework  *nodework
	clocks    string // folder of the programs' clocks
	namespace string
	draw      *rand.Rand

	mu    sync.Mutex
	busy  map[string]bool // what has a fault already
	made  map[string]int
	group sync.WaitGroup
}

const (
	// longCut is how long a member is cut off in runs that look at leases: 40 s of the lease, and time to be caught.
	longCut = 75 * time.Second
	// beforeLongCut is how long the first rollout runs before: it has reached the member, with an amount to use there.
	beforeLongCut = 6 * time.Second
	// reconnect is how long an agent may be without news after its API server was away.
	reconnect = 65 * time.Second
)

// toHub and toMember are the names of the proxies of a member's agent.
func toHub(member string) string    { return fleet.AgentName(member) + " to hub" }
func toMember(member string) string { return fleet.AgentName(member) + " to " + member }

// kinds of faults, with how often they come.
func (f *faults) kinds() []struct {
	weight int
	make   func(ctx context.Context, draw *rand.Rand)
} {
	return []struct {
		weight int
		make   func(ctx context.Context, draw *rand.Rand)
	}{
		{20, f.cutOff}, {18, f.killAgent}, {10, f.killHub}, {14, f.answerBadly}, {16, f.holdBack}, {12, f.sicken},
		{8, f.removeNode}, {4, f.restartServer}, {12, f.setClock}, {12, f.drain}, {20, f.evict}, {20, f.killDaemon},
	}
}

// play makes faults until ctx ends, and returns when all of them have ended. The long one outlasts ctx, until life ends
// at most.
func (f *faults) play(ctx, life context.Context, long longFault) {
	switch long {
	case clockFast:
		name, ahead := fleet.AgentName(f.member(f.draw)), minutes(f.draw)
		f.group.Go(func() {
			if pause(ctx, beforeLongCut) {
				f.wrongFor(ctx, name, ahead, longCut)
			}
		})
	case memberLost:
		f.loseOne(ctx, life)
	case memberCutOff:
		member := f.member(f.draw)
		if f.take("member cut off", toHub(member)) { // at once: a short cut must not come between
			f.group.Go(func() {
				defer f.release(toHub(member))
				if pause(ctx, beforeLongCut) {
					f.isolate(life, member, longCut)
				}
			})
		}
	}
	f.group.Go(func() { f.supervise(ctx) })
	for pause(ctx, 2*time.Second+time.Duration(f.draw.Int64N(int64(5*time.Second)))) {
		kinds, total := f.kinds(), 0
		for _, k := range kinds {
			total += k.weight
		}
		n, draw := f.draw.IntN(total), rand.New(rand.NewPCG(f.draw.Uint64(), 0))
		for _, k := range kinds {
			if n -= k.weight; n < 0 {
				f.group.Go(func() { k.make(ctx, draw) })
				break
			}
		}
	}
	f.group.Wait()
}

// take takes a target for a fault, unless it has one.
func (f *faults) take(what, target string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.busy[target] {
		return false
	}
	f.busy[target] = true
	f.made[what]++
	return true
}

func (f *faults) release(target string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.busy, target)
}

func (f *faults) note(cluster, format string, args ...any) {
	f.recorder.note(judge.Entry{Cluster: cluster, Note: fmt.Sprintf(format, args...)})
}

func (f *faults) member(draw *rand.Rand) string {
	names := f.h.MemberNames()
	return names[draw.IntN(len(names))]
}

// upTo draws a time between a second and the longest.
func upTo(draw *rand.Rand, longest time.Duration) time.Duration {
	return time.Second + time.Duration(draw.Int64N(int64(longest-time.Second)))
}

// supervise starts programs again that ended by themselves, as a kubelet does: one that starts while its API server is
// away may.
func (f *faults) supervise(ctx context.Context) {
	for pause(ctx, time.Second) {
		for _, name := range f.h.Fleet.Programs() {
			if f.h.Fleet.Running(name) || !f.take("ended by itself", name) {
				continue
			}
			f.note("", "%s ended by itself, starting it again", name)
			_ = f.h.Fleet.Restart(name) // it is tried again
			f.release(name)
		}
	}
}

func (f *faults) cutOff(ctx context.Context, draw *rand.Rand) {
	f.cut(ctx, f.member(draw), upTo(draw, 15*time.Second))
}

// cut cuts a member's agent off from the hub for a time, or until ctx ends.
func (f *faults) cut(ctx context.Context, member string, length time.Duration) {
	if !f.take("member cut off", toHub(member)) {
		return
	}
	defer f.release(toHub(member))
	f.isolate(ctx, member, length)
}

// isolate is the cut itself, of a gate that was taken.
func (f *faults) isolate(ctx context.Context, member string, length time.Duration) {
	f.proxies[toHub(member)].SetCut(true)
	f.recorder.note(judge.Entry{Cluster: member, Link: &judge.Link{Cut: true}})
	pause(ctx, length)
	f.recorder.note(judge.Entry{Cluster: member, Link: &judge.Link{}})
	f.proxies[toHub(member)].SetCut(false)
}

func (f *faults) killAgent(ctx context.Context, draw *rand.Rand) {
	f.kill(ctx, fleet.AgentName(f.member(draw)), upTo(draw, 4*time.Second))
}

func (f *faults) killHub(ctx context.Context, draw *rand.Rand) {
	f.kill(ctx, fleet.HubProgram, upTo(draw, 6*time.Second))
}

// kill kills a program and starts it again after a time.
func (f *faults) kill(ctx context.Context, name string, length time.Duration) {
	if !f.take("program killed", name) {
		return
	}
	defer f.release(name)
	f.note("", "%s is killed", name)
	if err := f.h.Fleet.Kill(context.WithoutCancel(ctx), name); err != nil {
		f.note("", "%v", err)
		return
	}
	pause(ctx, length)
	if err := f.h.Fleet.Restart(name); err != nil {
		f.note("", "%v", err)
	}
	f.note("", "%s is started again", name)
}

// minutes draws by how much a clock is wrong.
func minutes(draw *rand.Rand) time.Duration {
	const most = 5
	return time.Duration(1+draw.IntN(most)) * time.Minute
}

// setClock sets the clock of a program wrong by minutes, and right again after a time: early enough that the hub has
// told so, and taken it back, when the world is to be at rest.
func (f *faults) setClock(ctx context.Context, draw *rand.Rand) {
	programs := f.h.Fleet.Programs()
	name := programs[draw.IntN(len(programs))]
	off := minutes(draw)
	if draw.IntN(2) == 0 {
		off = -off
	}
	f.wrongFor(ctx, name, off, upTo(draw, 20*time.Second))
}

// wrongFor sets the clock of a program off for a time, which ends a while before ctx.
func (f *faults) wrongFor(ctx context.Context, name string, off, length time.Duration) {
	const last = 10 * time.Second
	if end, ok := ctx.Deadline(); ok {
		length = min(length, time.Until(end)-last)
	}
	if length <= 0 || !f.take("clock set wrong", name+" clock") {
		return
	}
	defer f.release(name + " clock")
	f.turn(name, off)
	pause(ctx, length)
	f.turn(name, 0)
}

// turn sets how far the clock of a program is off, by its file (cmd/internal/clocks).
func (f *faults) turn(program string, off time.Duration) {
	f.note("", "the clock of %s is %s off", program, off)
	path := filepath.Join(f.clocks, program)
	err := os.WriteFile(path+".new", []byte(off.String()), 0o600)
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		f.note("", "set the clock of %s: %v", program, err)
	}
}

// clockVariable tells a program that was built for it where the file of its clock is.
const clockVariable = "FLOTILLA_CLOCK_FILE"

func (f *faults) answerBadly(ctx context.Context, draw *rand.Rand) {
	p := f.proxy(draw)
	if !f.take("429, 500 and 503", p.Name) {
		return
	}
	defer f.release(p.Name)
	f.note("", "%s: 429, 500 and 503", p.Name)
	p.SetFaulty(true)
	pause(ctx, upTo(draw, 15*time.Second))
	p.SetFaulty(false)
	f.note("", "%s: good answers", p.Name)
}

func (f *faults) holdBack(ctx context.Context, draw *rand.Rand) {
	p := f.proxy(draw)
	if !f.take("watches held back", p.Name+" watches") {
		return
	}
	defer f.release(p.Name + " watches")
	lag := 100*time.Millisecond + time.Duration(draw.Int64N(int64(time.Second)))
	f.note("", "%s: watches are %s late", p.Name, lag.Round(time.Millisecond))
	p.SetLag(lag)
	pause(ctx, upTo(draw, 15*time.Second))
	p.SetLag(0)
	f.note("", "%s: watches are in time", p.Name)
}

func (f *faults) proxy(draw *rand.Rand) *faultproxy.Proxy {
	names := make([]string, 0, len(f.proxies))
	for name := range f.proxies {
		names = append(names, name)
	}
	slices.Sort(names)
	return f.proxies[names[draw.IntN(len(names))]]
}

// sicken makes some pods fail by themselves for a time.
func (f *faults) sicken(ctx context.Context, draw *rand.Rand) {
	member := f.member(draw)
	var sick []string
	for _, pod := range f.h.Pods.Pods(f.namespace) {
		if pod.Cluster == member && draw.IntN(6) == 0 && len(sick) < 2 {
			sick = append(sick, pod.Name)
		}
	}
	if len(sick) == 0 || !f.take("pods fail", member+" pods") {
		return
	}
	defer f.release(member + " pods")
	f.note(member, "pods that fail: %s", strings.Join(sick, " "))
	f.label(ctx, member, sick, `"true"`)
	pause(ctx, upTo(draw, 12*time.Second))
	f.label(context.WithoutCancel(ctx), member, sick, "null")
}

func (f *faults) label(ctx context.Context, member string, pods []string, value string) {
	for _, name := range pods {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name}}
		patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, fleet.LabelNeverReady, value)
		_ = f.h.Members[member].Client.Patch(ctx, pod, client.RawPatch(types.MergePatchType, []byte(patch))) // it may be gone
	}
}

// heal takes back what sickened pods, also of a member whose API server was away.
func (f *faults) heal(ctx context.Context) error {
	for _, member := range f.h.MemberNames() {
		list := &corev1.PodList{}
		if err := f.h.Members[member].Client.List(ctx, list, client.InNamespace(f.namespace),
			client.MatchingLabels{fleet.LabelNeverReady: "true"}); err != nil {
			return fmt.Errorf("list the pods of %s that fail: %w", member, err)
		}
		for i := range list.Items {
			f.label(ctx, member, []string{list.Items[i].Name}, "null")
		}
		if err := f.addNodes(ctx, member); err != nil {
			return err
		}
	}
	return nil
}

func (f *faults) addNodes(ctx context.Context, member string) error {
	for _, spec := range harness.ThreeMembers() {
		if spec.Name == member {
			return f.h.Fleet.Member(member).AddNodes(ctx, spec.Nodes...)
		}
	}
	return nil
}

// removeNode takes a node away with the pods on it, and brings it back. What it began it ends, even when the storm is
// over meanwhile.
func (f *faults) removeNode(ctx context.Context, draw *rand.Rand) {
	member := f.member(draw)
	if !f.take("node removed", member+" nodes") {
		return
	}
	defer f.release(member + " nodes")
	c := f.h.Members[member].Client
	nodes := &corev1.NodeList{}
	if err := c.List(ctx, nodes); err != nil || len(nodes.Items) == 0 {
		return
	}
	node := &nodes.Items[draw.IntN(len(nodes.Items))]
	away := upTo(draw, 15*time.Second)
	f.nodework.away(member, node.Name)
	said := func(format string, args ...any) { f.note(member, format, args...) }
	said("node %s goes, with its pods", node.Name)
	life, stop := context.WithTimeout(context.WithoutCancel(ctx), nodeLimit)
	defer stop()
	insist(life, said, "delete node "+node.Name,
		func(ctx context.Context) error { return client.IgnoreNotFound(c.Delete(ctx, node)) })
	emptyNode(life, c, node.Name, said)
	pause(ctx, away)
	emptyNode(life, c, node.Name, said) // agents may have asked for more of them to go, and a scheduler may not have known
	insist(life, said, "add node "+node.Name, func(ctx context.Context) error { return f.addNodes(ctx, member) })
	said("node %s is back", node.Name)
}

// nodeLimit is how long a node may be away at most: 15 s, and the restart of its API server by [faults.restartServer].
const nodeLimit = 2 * time.Minute

// emptyNode deletes the pods of a node that is no more until there are none, as the garbage collector of pods does: it
// is a part of kube-controller-manager, which runs in these clusters as in others, and deletes by force what is bound
// to a node that does not exist, 40 s and more after the node went. Nodes are away for less than that here, so the
// fault does it. What would be left of a pod that is going stays for ever where the node comes back: a kubelet that
// starts ends such pods, a simulated one does not look.
func emptyNode(ctx context.Context, c client.Client, node string, said func(format string, args ...any)) {
	insist(ctx, said, "delete the pods of node "+node, func(ctx context.Context) error {
		pods := &corev1.PodList{}
		if err := c.List(ctx, pods, client.MatchingFields{"spec.nodeName": node}); err != nil {
			return err
		}
		var group sync.WaitGroup
		errs := make([]error, len(pods.Items))
		for i := range pods.Items {
			group.Go(func() { errs[i] = client.IgnoreNotFound(c.Delete(ctx, &pods.Items[i], client.GracePeriodSeconds(0))) })
		}
		group.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
		if n := len(pods.Items); n > 0 {
			return fmt.Errorf("there were %d a moment ago", n)
		}
		return nil
	})
}

// insist tries until it succeeds or ctx ends, and says each new reason why it did not.
func insist(ctx context.Context, said func(format string, args ...any), what string, try func(context.Context) error) {
	const between = 100 * time.Millisecond
	last := ""
	for {
		err := try(ctx)
		if err == nil {
			return
		}
		if text := err.Error(); text != last {
			last = text
			said("%s: %v", what, err)
		}
		if !pause(ctx, between) {
			said("%s: gave up", what)
			return
		}
	}
}

// drain asks that a member is left, and takes that back after a time, mostly half way. Only one is drained at a time:
// the others can take what it has.
func (f *faults) drain(ctx context.Context, draw *rand.Rand) {
	const one = "drains"
	if !f.take("member drained", one) {
		return
	}
	defer f.release(one)
	member, length := f.member(draw), upTo(draw, 20*time.Second)
	said := func(format string, args ...any) { f.note(member, format, args...) }
	said("it is to be drained")
	f.taint(ctx, member, said, corev1.Taint{Key: topology.TaintDrain, Effect: corev1.TaintEffectNoExecute})
	pause(ctx, length)
	life, stop := context.WithTimeout(context.WithoutCancel(ctx), nodeLimit)
	defer stop()
	f.taint(life, member, said)
	said("its drain is taken back")
}

// taint sets the taints of a member on the hub, which may be away for a while.
func (f *faults) taint(ctx context.Context, member string, said func(format string, args ...any),
	taints ...corev1.Taint) {
	insist(ctx, said, "set the taints", func(ctx context.Context) error {
		m := &topology.MemberCluster{}
		if err := f.h.Hub.Client.Get(ctx, client.ObjectKey{Name: member}, m); err != nil {
			return err
		}
		before := m.DeepCopy()
		m.Spec.Taints = taints
		return f.h.Hub.Client.Patch(ctx, m, client.MergeFrom(before))
	})
}

// restartServer kills the control plane of a cluster and starts it again. Only one is away at a time: machines are
// small.
func (f *faults) restartServer(ctx context.Context, draw *rand.Rand) {
	const one = "control planes"
	if !f.take("control plane restarted", one) {
		return
	}
	defer f.release(one)
	clusters := f.h.Fleet.Clusters()
	c := clusters[draw.IntN(len(clusters))]
	life := context.WithoutCancel(ctx)
	f.recorder.note(judge.Entry{Cluster: c.Name, StaleUntil: time.Now().Add(10 * time.Minute),
		Note: "the control plane is killed"})
	if err := c.Stop(life); err != nil {
		f.note(c.Name, "%v", err)
	}
	pause(ctx, upTo(draw, 5*time.Second))
	if err := c.Start(life); err != nil {
		f.note(c.Name, "%v", err)
	}
	f.recorder.note(judge.Entry{Cluster: c.Name, StaleUntil: time.Now().Add(reconnect),
		Note: "the control plane serves again"})
}
