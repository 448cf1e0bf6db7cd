package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/flotilla-dev/flotilla/apis/apps/v1alpha1"
	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/apis/crds"
	policy "github.com/flotilla-dev/flotilla/apis/policy/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
)

const (
	// Patience is how long an assertion waits. What a user waits for takes a second or two; the rest is for machines that
	// do other things too.
	Patience = 4 * time.Minute
	// polling is the time between two looks: short, because suites are to be quick.
	polling = 50 * time.Millisecond
)

// Options say what a harness starts.
type Options struct {
	// Members are the member clusters.
	Members []fleet.ClusterSpec
	// Alone leaves out the hub, and our programs: a suite starts the agents.
	Alone bool
	// Earlier starts an earlier version; nil starts this one.
	Earlier *Earlier
	// Progress receives a line per step; nil drops them.
	Progress func(string)
	// Env returns additional KEY=value settings of a program of ours; nil: there are none.
	Env func(program string) []string
	// Before is called when the clusters are there, and before the programs start; nil is not.
	Before func(context.Context, *Harness) error
}

// ThreeMembers are the members of the try-out: east with zones a and b, west with b and c, south with c and d; two
// nodes in each zone.
func ThreeMembers() []fleet.ClusterSpec {
	var specs []fleet.ClusterSpec
	for _, m := range []struct {
		name  string
		zones []string
	}{{"east", []string{"a", "b"}}, {"west", []string{"b", "c"}}, {"south", []string{"c", "d"}}} {
		specs = append(specs, fleet.ClusterSpec{Name: m.name, Nodes: fleet.Nodes(m.name, "eu", m.zones, 2)})
	}
	return specs
}

// Harness is a running fleet and the means to use it and look at it.
type Harness struct {
	Fleet *fleet.Fleet
	// Hub is nil in a harness that is Alone.
	Hub *Cluster
	// Members by name.
	Members map[string]*Cluster
	// Pods records the pods of all members.
	Pods *Watcher

	answers  answers
	programs string
	specs    []fleet.ClusterSpec // of the members
	stop     context.CancelFunc
}

// Cluster is a cluster of the fleet with a client of an administrator.
type Cluster struct {
	*fleet.Cluster
	Client client.Client
}

// Start starts the fleet, installs the CRDs, runs the hub and an agent per member, and returns when every member is
// Ready. After an error nothing is left.
func Start(ctx context.Context, o Options) (*Harness, error) {
	bin, err := fleet.FindBinaries()
	if err != nil {
		return nil, err
	}
	if err := fleet.Reap(); err != nil && o.Progress != nil {
		o.Progress(err.Error())
	}
	f, err := fleet.Start(ctx, fleet.Config{Bin: bin, NoHub: o.Alone, Members: o.Members, Audit: true, Env: o.Env,
		Progress: o.Progress})
	if err != nil {
		return nil, err
	}
	// What runs beside the specs lives until Close, not as long as the caller's step.
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	h := &Harness{Fleet: f, Members: map[string]*Cluster{}, specs: o.Members, stop: stop}
	if err := h.equip(ctx, life, bin, o.Earlier); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	if o.Alone {
		return h, nil
	}
	if o.Before != nil {
		if err := o.Before(ctx, h); err != nil {
			return nil, errors.Join(err, h.Close())
		}
	}
	if err := h.runPrograms(ctx, o.Earlier); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}

// equip makes clients, installs the CRDs, finds our programs and begins to watch pods.
func (h *Harness) equip(ctx, life context.Context, bin string, earlier *Earlier) error {
	scheme, err := newScheme()
	if err != nil {
		return err
	}
	for _, c := range h.Fleet.Clusters() {
		cluster := &Cluster{Cluster: c}
		if cluster.Client, err = client.New(c.RESTConfig(), client.Options{Scheme: scheme}); err != nil {
			return fmt.Errorf("connect to %s: %w", c.Name, err)
		}
		if c == h.Fleet.Hub() {
			h.Hub = cluster
		} else {
			h.Members[c.Name] = cluster
		}
	}
	group, groupCtx := errgroup.WithContext(ctx)
	for _, c := range h.Fleet.Clusters() {
		group.Go(func() error {
			if earlier != nil {
				return c.InstallCRDs(groupCtx, earlier.Definitions)
			}
			if err := c.InstallCRDs(groupCtx, crds.FS); err != nil {
				return err
			}
			return c.InstallProtection(groupCtx)
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if h.Hub != nil {
		if h.programs, err = programs(ctx, bin, h.Fleet.Dir); err != nil {
			return err
		}
		watching, err := client.NewWithWatch(h.Hub.RESTConfig(), client.Options{Scheme: scheme})
		if err != nil {
			return fmt.Errorf("connect to %s: %w", h.Hub.Name, err)
		}
		go h.answers.follow(life, watching)
	}
	h.Pods, err = newWatcher(ctx, life, h.Fleet.Members())
	return err
}

func (h *Harness) runPrograms(ctx context.Context, earlier *Earlier) error {
	if earlier != nil {
		return h.runEarlier(ctx, earlier)
	}
	if err := h.Fleet.RunHub(ctx, h.programs, hubFlags()...); err != nil {
		return err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	for _, member := range h.Fleet.Members() {
		group.Go(func() error {
			if err := h.Fleet.Accept(groupCtx, member.Name); err != nil {
				return err
			}
			return h.Fleet.RunAgent(groupCtx, h.programs, member, agentFlags()...)
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return h.Fleet.WaitMembersReady(ctx, Patience)
}

// hubFlags and agentFlags are what the programs of this version get beside what the fleet gives them.
func hubFlags() []string { return []string{"--checks-reach-local"} }

func agentFlags() []string { return []string{"--resource-distribution"} }

// RunAgentOn runs the agent of this harness on a member of a harness that is Alone, without a hub.
func (h *Harness) RunAgentOn(ctx context.Context, alone *Harness, member string) error {
	return alone.Fleet.RunAgent(ctx, h.programs, alone.Fleet.Member(member))
}

// RunAgentAs runs an agent on a member of another harness, that comes to the hub of this one under a name; program is
// its name in the other harness's fleet.
func (h *Harness) RunAgentAs(ctx context.Context, as, program string, other *Harness, member string) error {
	own, err := other.Fleet.AgentIdentity(ctx, other.Fleet.Member(member))
	if err != nil {
		return err
	}
	remote, err := h.Fleet.MemberIdentity(ctx, as)
	if err != nil {
		return err
	}
	ports, err := other.Fleet.FreePorts(2)
	if err != nil {
		return err
	}
	err = other.Fleet.Run(fleet.Program{Name: program, Path: filepath.Join(h.programs, fleet.AgentProgram), Args: []string{
		"--kubeconfig=" + own, "--hub-kubeconfig=" + remote, "--cluster-name=" + as, "--leader-elect=false",
		fmt.Sprintf("--metrics-bind-address=127.0.0.1:%d", ports[0]),
		fmt.Sprintf("--health-probe-bind-address=127.0.0.1:%d", ports[1]),
		"--webhook-bind-address=0", // another agent may serve that member
	}})
	if err != nil {
		return err
	}
	return other.Fleet.WaitReady(ctx, program)
}

// Mend starts again whatever a spec stopped or killed, and returns when every member is Ready and every agent that was
// started has had its session answered.
func (h *Harness) Mend(ctx context.Context) error {
	for _, c := range h.Fleet.Clusters() {
		if c.Whole(ctx) == nil {
			continue
		}
		if err := c.Start(ctx); err != nil {
			return err
		}
	}
	announced, _, err := h.sessions(ctx)
	if err != nil {
		return err
	}
	after := map[string]int64{}
	for _, member := range h.MemberNames() {
		if !h.Fleet.Running(fleet.AgentName(member)) {
			after[member] = announced[member]
		}
	}
	for _, name := range h.Fleet.Programs() {
		if err := h.Fleet.Restart(name); err != nil {
			return err
		}
	}
	if err := h.Fleet.WaitMembersReady(ctx, Patience); err != nil {
		return err
	}
	return h.waitSessions(ctx, after)
}

// Close ends everything. Where the environment variable FLOTILLA_KEEP_LOGS names a folder, the logs of our programs are
// copied there before.
func (h *Harness) Close() error {
	h.stop()
	var kept error
	if keep := os.Getenv("FLOTILLA_KEEP_LOGS"); keep != "" {
		kept = os.CopyFS(filepath.Join(keep, filepath.Base(h.Fleet.Dir)), os.DirFS(filepath.Join(h.Fleet.Dir, "logs")))
	}
	return errors.Join(kept, h.Fleet.Destroy())
}

// Describe returns what helps to understand a failed spec: the objects of its namespace, and the ends of the logs.
func (h *Harness) Describe(ctx context.Context, namespace string) string {
	var out strings.Builder
	for _, c := range h.clusters() {
		text, err := c.Kubectl(ctx, "-n", namespace, "get", "ud,clone,wp,fp,pods", "-o", "wide", "--ignore-not-found")
		fmt.Fprintf(&out, "--- %s\n%s", c.Name, text)
		if err != nil {
			fmt.Fprintf(&out, "%v\n", err)
		}
	}
	for _, object := range []string{"ud", "clone", "wp"} {
		if h.Hub != nil {
			text, _ := h.Hub.Kubectl(ctx, "-n", namespace, "get", object, "-o", "yaml")
			fmt.Fprintf(&out, "--- hub, %s\n%s", object, text)
		}
	}
	for _, name := range h.Fleet.Programs() {
		const lines = 25 // what a page shows of each
		fmt.Fprintf(&out, "--- the end of %s\n%s\n", h.Fleet.LogFile(name), h.Fleet.LogTail(name, lines))
	}
	return out.String()
}

func (h *Harness) clusters() []*Cluster {
	var all []*Cluster
	if h.Hub != nil {
		all = append(all, h.Hub)
	}
	for _, c := range h.Fleet.Members() {
		all = append(all, h.Members[c.Name])
	}
	return all
}

// ID returns the identity of a cluster: the uid of its namespace kube-system.
func (c *Cluster) ID(ctx context.Context) (string, error) {
	namespace := &corev1.Namespace{}
	if err := c.Client.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, namespace); err != nil {
		return "", fmt.Errorf("read the id of %s: %w", c.Name, err)
	}
	return string(namespace.UID), nil
}

// MemberNames returns the names of the members, sorted.
func (h *Harness) MemberNames() []string {
	var names []string
	for _, m := range h.Fleet.Members() {
		names = append(names, m.Name)
	}
	slices.Sort(names)
	return names
}

// newScheme knows the kinds that the harness reads.
func newScheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apps.AddToScheme,
		appsv1alpha1.AddToScheme, policy.AddToScheme, topology.AddToScheme, work.AddToScheme} {
		if err := add(s); err != nil {
			return nil, fmt.Errorf("register types: %w", err)
		}
	}
	return s, nil
}
