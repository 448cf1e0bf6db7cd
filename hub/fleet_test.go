package hub_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/go-logr/logr"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/apiserver"
	"github.com/flotilla-dev/flotilla/hub"
	"github.com/flotilla-dev/flotilla/hub/store"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// deadline bounds every wait of these tests; the machine may be busy.
const deadline = 2 * time.Minute

// lanes is how many tests run beside each other: most of their time is waiting. Each has an API server for itself,
// since hubs on one would see the members of each other.
const lanes = 2

// servers are the API servers of this package. Tests have their own namespaces, members and hub on them.
type servers struct {
	free chan *rest.Config
	mu   sync.Mutex
	used map[*testing.T]*rest.Config
}

var apiServers = &servers{free: make(chan *rest.Config, lanes), used: map[*testing.T]*rest.Config{}}

// of returns the API server that a test has for itself until it ends.
func (s *servers) of(t *testing.T) *rest.Config {
	t.Helper()
	s.mu.Lock()
	cfg := s.used[t]
	s.mu.Unlock()
	if cfg != nil {
		return cfg
	}
	cfg = <-s.free
	s.mu.Lock()
	s.used[t] = cfg
	s.mu.Unlock()
	t.Cleanup(func() {
		s.mu.Lock()
		delete(s.used, t)
		s.mu.Unlock()
		s.free <- cfg
	})
	return cfg
}

// start starts one more API server with our definitions, and returns what stops it.
func (s *servers) start() (stop func(), err error) {
	cfg, end, err := apiserver.Start()
	stop = func() {
		if err := end(); err != nil {
			fmt.Fprintln(os.Stderr, "stop the API server:", err)
		}
	}
	if err != nil {
		return stop, err
	}
	s.free <- cfg
	return stop, nil
}

func TestMain(m *testing.M) {
	os.Exit(func() int {
		log.SetLogger(logr.Discard())
		if os.Getenv("HUB_LOG") != "" {
			log.SetLogger(zap.New(zap.UseDevMode(true)))
		}
		if os.Getenv(snapshotVariable) != "" {
			if err := planFromFile(context.Background()); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
			return 0
		}
		var stops [lanes]func()
		var errs [lanes]error
		var group sync.WaitGroup
		for i := range lanes {
			group.Go(func() { stops[i], errs[i] = apiServers.start() })
		}
		group.Wait()
		for _, stop := range stops {
			defer stop()
		}
		if err := errors.Join(errs[:]...); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}())
}

// fleet is a hub with simulated members in one test.
type fleet struct {
	t         *testing.T
	ctx       context.Context
	server    *rest.Config
	client    client.WithWatch
	namespace string
	hubID     string
	agents    map[string]*agent
	writes    *writes
	held      *held
	hub       client.Reader // what the running hub sees: its cache
	stopHub   func()
	options   []func(*hub.Options) // of the hub, beside those of every test
}

// writes counts the mutating requests of the hub by verb and path.
type writes struct {
	mu    sync.Mutex
	list  []string
	going int // requests that are not answered yet
}

func (w *writes) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Method != http.MethodGet && !strings.Contains(r.URL.Path, "/leases/") {
			what := r.Method + " " + r.URL.Path
			if r.Method == http.MethodPost && r.GetBody != nil {
				// The name of what is created stands in the body alone.
				if body, err := r.GetBody(); err == nil {
					object := metav1.PartialObjectMetadata{}
					if json.NewDecoder(body).Decode(&object) == nil {
						what += "/" + object.Name
					}
				}
			}
			w.mu.Lock()
			w.list = append(w.list, what)
			w.going++
			w.mu.Unlock()
			defer func() {
				w.mu.Lock()
				w.going--
				w.mu.Unlock()
			}()
		}
		return next.RoundTrip(r)
	})
}

// take returns what was written since the last call.
func (w *writes) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := w.list
	w.list = nil
	return list
}

// busy reports whether a request is not answered yet.
func (w *writes) busy() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.going > 0
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// newFleet starts a hub, and members with their zones ("east" → "a", "b") that answer every order at once.
func newFleet(t *testing.T, members map[string][]string, options ...func(*hub.Options)) *fleet {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	scheme, err := hub.Scheme()
	must(t, err)
	server := apiServers.of(t)
	c, err := client.NewWithWatch(server, client.Options{Scheme: scheme})
	must(t, err)
	id, err := store.HubID(ctx, c)
	must(t, err)
	f := &fleet{t: t, ctx: ctx, server: server, client: c, hubID: id, agents: map[string]*agent{}, writes: &writes{},
		held: &held{}, options: options}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-",
		Labels: map[string]string{topology.LabelFederated: "true"}}}
	must(t, c.Create(ctx, namespace))
	f.namespace = namespace.Name
	f.startHub()
	f.joinAll(members)
	t.Cleanup(func() {
		f.stopHub()
		for _, a := range f.agents {
			a.stop()
		}
		for name := range f.agents {
			_ = c.Delete(context.Background(), &topology.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name}})
			works := &work.WorkList{}
			_ = c.List(context.Background(), works, client.InNamespace(wire.MemberNamespace(name)))
			for i := range works.Items {
				works.Items[i].Finalizers = nil
				_ = c.Update(context.Background(), &works.Items[i])
				_ = c.Delete(context.Background(), &works.Items[i])
			}
		}
		cancel()
	})
	return f
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// startHub runs the hub until stopHub is called.
func (f *fleet) startHub() {
	f.t.Helper()
	ctx, cancel := context.WithCancel(f.ctx)
	cfg := rest.CopyConfig(f.server)
	cfg.Wrap(f.writes.wrap)
	cfg.Wrap(f.held.wrap)
	o := hub.Options{MetricsBindAddress: "0", HealthProbeBindAddress: "0", SkipNameValidation: true, Logger: log.Log}
	for _, set := range f.options {
		set(&o)
	}
	mgr, err := hub.NewManager(ctx, cfg, o)
	must(f.t, err)
	f.hub = mgr.GetClient()
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	f.stopHub = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			f.t.Errorf("the hub ended: %v", err)
		}
	})
}

// join makes an accepted member with these zones and an agent that renews its Lease and answers.
func (f *fleet) join(name string, zones ...string) *agent {
	f.t.Helper()
	f.joinAll(map[string][]string{name: zones})
	return f.agents[name]
}

// joinAll is join for several members at once: what takes its time is the hub, and it takes in all of them together.
func (f *fleet) joinAll(members map[string][]string) {
	f.t.Helper()
	names := slices.Sorted(maps.Keys(members))
	for _, name := range names {
		f.accept(name, members[name])
	}
	for _, name := range names {
		f.begin(f.agents[name])
	}
	for _, name := range names {
		f.eventually(name+" Ready", func() error {
			return memberIs(f.ctx, f.client, name, topology.MemberReady, metav1.ConditionTrue, "")
		})
		// The hub divides by what its cache holds: a workload that a test creates before that would not count the new member.
		// Where the Lease of an earlier test stands, a member is Ready before its agent has told its id, and not Accepted
		// yet.
		for _, condition := range []string{topology.MemberReady, topology.MemberAccepted} {
			f.eventually("the hub sees "+name+" "+condition, func() error {
				return memberIs(f.ctx, f.hub, name, condition, metav1.ConditionTrue, "")
			})
		}
	}
}

// accept makes an accepted member.
func (f *fleet) accept(name string, zones []string) {
	f.t.Helper()
	member := &topology.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: topology.MemberClusterSpec{Accepted: true}}
	must(f.t, f.client.Create(f.ctx, member))
	base := member.DeepCopy()
	member.Status.ClusterID = "id-of-" + name
	member.Status.OrderFormats = &topology.OrderFormats{Names: []string{topology.OrderFormatBudget}}
	for _, zone := range zones {
		member.Status.Zones = append(member.Status.Zones, topology.Zone{Name: zone, Nodes: 3, Ready: 3})
	}
	must(f.t, f.client.Status().Patch(f.ctx, member, client.MergeFrom(base)))
	f.agents[name] = &agent{f: f, name: name, state: map[string]*replica{}, news: make(chan struct{}, 1),
		stopped: make(chan struct{})}
}

// begin runs the agent of an accepted member.
func (f *fleet) begin(a *agent) {
	f.t.Helper()
	ctx, cancel := context.WithCancel(f.ctx)
	a.cancel = cancel
	go a.listen(ctx)
	go a.run(ctx)
	f.eventually("namespace of "+a.name, func() error {
		return f.client.Get(f.ctx, client.ObjectKey{Name: wire.MemberNamespace(a.name)}, &corev1.Namespace{})
	})
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: wire.MemberNamespace(a.name), Name: a.name},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new("id-of-" + a.name), RenewTime: new(metav1.NowMicro()), LeaseDurationSeconds: new(int32(40)),
		},
	}
	if err := f.client.Create(f.ctx, lease); err != nil && !apierrors.IsAlreadyExists(err) {
		f.t.Fatal(err)
	}
}

func memberIs(ctx context.Context, from client.Reader, name, condition string, status metav1.ConditionStatus,
	reason string) error {
	member := &topology.MemberCluster{}
	if err := from.Get(ctx, client.ObjectKey{Name: name}, member); err != nil {
		return err
	}
	for _, c := range member.Status.Conditions {
		if c.Type == condition && c.Status == status && (reason == "" || c.Reason == reason) {
			return nil
		}
	}
	return fmt.Errorf("conditions of %s: %+v", name, member.Status.Conditions)
}

// eventually waits until check succeeds.
func (f *fleet) eventually(what string, check func() error) {
	f.t.Helper()
	end := time.After(deadline)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-end:
			f.dump()
			f.t.Fatalf("%s: not within %s: %v", what, deadline, err)
		}
	}
}

// dump logs what stands on the wire.
func (f *fleet) dump() {
	placements, works := &topology.WorkloadPlacementList{}, &work.WorkList{}
	_ = f.client.List(f.ctx, placements, client.InNamespace(f.namespace))
	_ = f.client.List(f.ctx, works)
	for _, p := range placements.Items {
		text, _ := json.Marshal(p.Spec)
		f.t.Logf("placement %s: %s", p.Name, text)
	}
	for _, w := range works.Items {
		if w.Annotations[topology.AnnotationWorkload] != "" &&
			strings.Contains(w.Annotations[topology.AnnotationWorkload], "/"+f.namespace+"/") {
			text, _ := json.Marshal(w.Status.Report)
			f.t.Logf("Work %s/%s sequence %s: %s", w.Namespace, w.Name, w.Annotations[topology.AnnotationSequence], text)
		}
	}
}

// quiet waits until the hub has written nothing for a while, and returns what it wrote until then. Time in which this
// process or the API server stood still does not count: the hub could do nothing in it.
func (f *fleet) quiet() []string {
	f.t.Helper()
	const still, tick = 1500 * time.Millisecond, 50 * time.Millisecond // three times the pace of the status
	var all []string
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	end := time.After(deadline)
	rest, last := time.Duration(0), time.Now()
	for rest < still {
		select {
		case <-ticker.C:
		case <-end:
			f.t.Fatalf("the hub does not come to rest; it wrote %d times, last %v", len(all), all[max(0, len(all)-10):])
		}
		answered := f.client.Get(f.ctx, client.ObjectKey{Name: f.namespace}, &corev1.Namespace{}) == nil
		now := time.Now()
		if answered {
			rest += min(now.Sub(last), 2*tick)
		}
		last = now
		if more, busy := f.writes.take(), f.writes.busy(); len(more) > 0 || busy {
			all, rest = append(all, more...), 0
		}
	}
	return all
}

// rest waits until the hub has told all, the number of workloads of each policy too, which it tells 10 s after it
// changed, and is quiet.
func (f *fleet) rest() {
	f.t.Helper()
	f.eventually("the policies count their workloads", func() error {
		policies, placements := &topology.FederationPolicyList{}, &topology.WorkloadPlacementList{}
		err := errors.Join(f.client.List(f.ctx, policies, client.InNamespace(f.namespace)),
			f.client.List(f.ctx, placements, client.InNamespace(f.namespace)))
		if err != nil {
			return err
		}
		held := map[string]int32{}
		for i := range placements.Items {
			if ref := placements.Items[i].Spec.Policy; ref != nil {
				held[ref.Name]++
			}
		}
		for i := range policies.Items {
			if p := &policies.Items[i]; p.Status.Workloads != held[p.Name] {
				return fmt.Errorf("policy %s counts %d of %d", p.Name, p.Status.Workloads, held[p.Name])
			}
		}
		return nil
	})
	f.quiet()
}

// about sorts writes into those of this test's namespace, by the name of what is written, and others.
func (f *fleet) about(wrote []string) (ours, others []string) {
	for _, w := range wrote {
		if strings.Contains(w, f.namespace) {
			ours = append(ours, w)
		} else {
			others = append(others, w)
		}
	}
	return ours, others
}

// agent plays a member: it carries out every Work at once, as far as its shares allow.
type agent struct {
	f      *fleet
	name   string
	mu     sync.Mutex
	silent bool
	still  bool // the Lease is not renewed
	// nodes are how many pods a DaemonSet or a SidecarSet has here, and on how many nodes a job runs.
	nodes int32
	// ticked is the newest tick that an AdvancedCronJob started here.
	ticked metav1.Time
	// halt is why jobs are halted here, nil for none.
	halt    *work.JobHalt
	state   map[string]*replica
	counter int64
	news    chan struct{} // its Works may have changed
	stopped chan struct{}
	cancel  func()
}

// replica is the state of one member object, by subset. canGoBack: not all pods have had the template yet, after
// another one.
type replica struct {
	kind           string
	template       string
	total, updated map[string]int32
	canGoBack      map[string]bool
	sequence       int64
	generation     int64
}

func (a *agent) stop() { a.cancel(); <-a.stopped }

// has changes how many nodes the member has.
func (a *agent) has(nodes int32) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.nodes = nodes
	for _, r := range a.state {
		r.generation = 0 // it is looked at again
	}
	a.hear()
}

// ticks records that an AdvancedCronJob started a tick.
func (a *agent) ticks(at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ticked = metav1.NewTime(at)
	for _, r := range a.state {
		r.generation = 0 // it is looked at again
	}
	a.hear()
}

// halts makes jobs halt here, until they are resumed.
func (a *agent) halts(reason, message string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.halt = &work.JobHalt{Time: metav1.NewTime(time.Now().Truncate(time.Second)), Reason: reason, Message: message}
	for _, r := range a.state {
		r.generation = 0 // it is looked at again
	}
	a.hear()
}

// hush makes the agent answer nothing, neither orders nor deletions, until it is called with false.
func (a *agent) hush(silent bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.silent = silent
	a.hear()
}

// hear makes the agent look at its Works.
func (a *agent) hear() {
	select {
	case a.news <- struct{}{}:
	default: // it is going to look
	}
}

// listen hears of changes of Works by a watch, which is made again when it ends.
func (a *agent) listen(ctx context.Context) {
	for ctx.Err() == nil {
		changes, err := a.f.client.Watch(ctx, &work.WorkList{}, client.InNamespace(wire.MemberNamespace(a.name)))
		if err != nil {
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
			continue
		}
		for range changes.ResultChan() {
			a.hear()
		}
	}
}

// keepStill ends the renewals of the Lease, for a test that takes it away.
func (a *agent) keepStill() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.still = true
}

func (a *agent) isStill() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.still
}

func (a *agent) run(ctx context.Context) {
	defer close(a.stopped)
	tick := time.NewTicker(200 * time.Millisecond) // for what was not accepted, and for a watch that is being made again
	defer tick.Stop()
	renewed := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-a.news:
		}
		if time.Since(renewed) > 5*time.Second && !a.isStill() { // the hub calls a member NotReady after 40 s
			renewed = time.Now()
			lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: wire.MemberNamespace(a.name), Name: a.name}}
			text := fmt.Sprintf(`{"spec":{"renewTime":%q}}`, renewed.UTC().Format(metav1.RFC3339Micro))
			_ = a.f.client.Patch(ctx, lease, client.RawPatch("application/merge-patch+json", []byte(text))) // a test may have taken it away
		}
		works := &work.WorkList{}
		if err := a.f.client.List(ctx, works, client.InNamespace(wire.MemberNamespace(a.name))); err != nil {
			continue
		}
		a.mu.Lock()
		for i := range works.Items {
			if !a.silent {
				a.carryOut(ctx, &works.Items[i])
			}
		}
		a.mu.Unlock()
	}
}

// order is what the simulation reads of a manifest.
type order struct {
	Kind     string
	Metadata struct{ Annotations map[string]string }
	Spec     struct {
		Paused         bool
		Replicas       int32
		Template       json.RawMessage
		Containers     json.RawMessage // of a SidecarSet
		UpdateStrategy struct {
			RollingUpdate struct {
				Partition int32
				Paused    bool
			}
			ManualUpdate struct{ Partitions map[string]int32 }
		}
		Topology struct {
			Subsets []struct {
				Name     string
				Replicas int32
			}
		}
	}
}

// whole reports whether the member decides how many pods there are.
func (o *order) whole() bool { return o.Kind == "DaemonSet" || o.Kind == "SidecarSet" }

func (a *agent) carryOut(ctx context.Context, w *work.Work) {
	if w.DeletionTimestamp != nil {
		base := w.DeepCopy()
		if controllerutil.RemoveFinalizer(w, work.ExecutionFinalizer) {
			_ = a.f.client.Patch(ctx, w, client.MergeFrom(base))
		}
		delete(a.state, w.Name)
		return
	}
	sequence, err := strconv.ParseInt(w.Annotations[topology.AnnotationSequence], 10, 64)
	if err != nil {
		return
	}
	r := a.state[w.Name]
	if r == nil {
		r = &replica{total: map[string]int32{}, updated: map[string]int32{}, canGoBack: map[string]bool{}}
		a.state[w.Name] = r
	}
	if r.sequence == sequence && r.generation == w.Generation || sequence < r.sequence {
		return
	}
	var o order
	if err := json.Unmarshal(w.Spec.Workload.Manifests[0].Raw, &o); err != nil {
		a.f.t.Errorf("manifest of Work %s: %v", w.Name, err)
		return
	}
	switch r.kind = o.Kind; o.Kind {
	case "DaemonSet", "SidecarSet":
		if o.Spec.Replicas = a.nodes; o.Kind == "SidecarSet" {
			o.Spec.Template = o.Spec.Containers
		}
		r.follow(&o)
	case "BroadcastJob":
		at, err := time.Parse(time.RFC3339, o.Metadata.Annotations[apps.AnnotationResume])
		if a.halt != nil && err == nil && !at.Before(a.halt.Time.Time) {
			a.halt = nil
		}
		r.touch(&o, a.nodes, a.halt != nil)
	default:
		r.follow(&o)
	}
	r.sequence, r.generation = sequence, w.Generation
	a.report(ctx, w, r)
}

func (r *replica) follow(o *order) {
	// A member that never had another template than the newest makes all pods of that, unless the order brings the one of
	// before.
	first, before := r.template == "", o.Metadata.Annotations[topology.AnnotationTemplateBefore] != ""
	if r.template != string(o.Spec.Template) {
		r.template = string(o.Spec.Template)
		clear(r.updated)
		for subset, n := range r.total {
			// Some have no way back.
			r.canGoBack[subset] = n > 0 && !o.whole() && !strings.Contains(r.template, `"statefulSetTemplate"`)
		}
	}
	wanted, partitions, paused := map[string]int32{}, map[string]int32{}, map[string]bool{}
	if o.whole() {
		var budget topology.MemberBudget
		_ = json.Unmarshal([]byte(o.Metadata.Annotations[topology.AnnotationBudget]), &budget)
		wanted[""], partitions[""], paused[""] = o.Spec.Replicas, max(o.Spec.Replicas-budget.Updated, 0), budget.Paused
		if budget.Paused && before {
			partitions[""] = o.Spec.Replicas // new pods get the previous template
		}
	} else if o.Kind == "AdvancedCronJob" {
		if wanted[""] = 1; o.Spec.Paused {
			wanted[""] = 0
		}
	} else if o.Kind == "CloneSet" {
		rolling := o.Spec.UpdateStrategy.RollingUpdate
		wanted[""], partitions[""], paused[""] = o.Spec.Replicas, rolling.Partition, rolling.Paused
	} else {
		var limits map[string]topology.SubsetLimit
		_ = json.Unmarshal([]byte(o.Metadata.Annotations[topology.AnnotationSubsetLimits]), &limits)
		for _, s := range o.Spec.Topology.Subsets {
			wanted[s.Name], partitions[s.Name], paused[s.Name] = s.Replicas,
				o.Spec.UpdateStrategy.ManualUpdate.Partitions[s.Name], limits[s.Name].Paused
		}
	}
	for subset := range r.total {
		if _, ok := wanted[subset]; !ok {
			delete(r.total, subset)
			delete(r.updated, subset)
			delete(r.canGoBack, subset)
		}
	}
	for subset, n := range wanted {
		if grown := n - r.total[subset]; grown > 0 {
			// New pods are of the old revision as far as the partition asks for those.
			old := max(partitions[subset]-(r.total[subset]-r.updated[subset]), 0)
			if first && !before {
				old = 0
			}
			r.updated[subset] += max(grown-old, 0)
			r.canGoBack[subset] = r.canGoBack[subset] || first && old > 0 && !o.whole()
		}
		r.total[subset] = n
		r.updated[subset] = min(r.updated[subset], n)
		if !paused[subset] {
			r.updated[subset] = max(r.updated[subset], n-partitions[subset])
			if r.canGoBack[subset] {
				r.updated[subset] = min(r.updated[subset], max(n-partitions[subset], 0))
			}
		}
		r.canGoBack[subset] = r.canGoBack[subset] && r.updated[subset] < n
	}
}

// touch makes a job's pods on as many nodes as the order grants. They end at once.
func (r *replica) touch(o *order, nodes int32, halted bool) {
	var budget topology.MemberBudget
	_ = json.Unmarshal([]byte(o.Metadata.Annotations[topology.AnnotationBudget]), &budget)
	r.total[""] = nodes
	if !budget.Paused && !halted {
		r.updated[""] = max(r.updated[""], min(budget.Updated, nodes))
	}
}

func (a *agent) report(ctx context.Context, w *work.Work, r *replica) {
	a.counter++
	base := w.DeepCopy()
	w.Status.Conditions = []metav1.Condition{{
		Type: work.ConditionApplied, Status: metav1.ConditionTrue, Reason: work.ReasonApplied,
		ObservedGeneration: w.Generation,
		LastTransitionTime: metav1.Now(),
	}}
	report := &work.Report{HubID: a.f.hubID, Sequence: r.sequence, Epoch: 1, Counter: a.counter,
		ObservedAt: metav1.NowMicro()}
	for _, subset := range slices.Sorted(maps.Keys(r.total)) {
		n, u := r.total[subset], r.updated[subset]
		report.InUse = append(report.InUse, work.SubsetUse{
			Subset: subset, Desired: n, Total: n, Ready: n, Available: n, Updated: u, UpdatedReady: u, UpdatedAvailable: u,
			CanGoBack: r.canGoBack[subset],
		})
	}
	w.Status.Report = report
	if r.kind == "DaemonSet" {
		n, u := r.total[""], r.updated[""]
		w.Status.ManifestStatuses = []work.ManifestStatus{{
			Identifier: work.ResourceIdentifier{Group: "apps.kruise.io", Version: "v1beta1", Kind: r.kind, Name: w.Name},
			Status: &runtime.RawExtension{Raw: fmt.Appendf(nil, `{"desiredNumberScheduled":%d,"currentNumberScheduled":%d,
				"numberReady":%d,"numberAvailable":%d,"updatedNumberScheduled":%d,"numberMisscheduled":0}`, n, n, n, n, u)},
		}}
	}
	if r.kind == "SidecarSet" {
		n, u := r.total[""], r.updated[""]
		w.Status.ManifestStatuses = []work.ManifestStatus{{
			Identifier: work.ResourceIdentifier{Group: "apps.kruise.io", Version: "v1beta1", Kind: r.kind, Name: w.Name},
			Status: &runtime.RawExtension{Raw: fmt.Appendf(nil,
				`{"matchedPods":%d,"readyPods":%d,"updatedPods":%d,"updatedReadyPods":%d}`, n, n, u, u)},
		}}
	}
	if r.kind == "AdvancedCronJob" {
		ticked, _ := json.Marshal(a.ticked) // null without one
		w.Status.ManifestStatuses = []work.ManifestStatus{{
			Identifier: work.ResourceIdentifier{Group: "apps.kruise.io", Version: "v1beta1", Kind: r.kind, Name: w.Name},
			Status:     &runtime.RawExtension{Raw: fmt.Appendf(nil, `{"type":"Job","lastScheduleTime":%s}`, ticked)},
		}}
	}
	if r.kind == "BroadcastJob" {
		w.Status.ManifestStatuses = []work.ManifestStatus{{
			Identifier: work.ResourceIdentifier{Group: "apps.kruise.io", Version: "v1beta1", Kind: r.kind, Name: w.Name},
			Status: &runtime.RawExtension{Raw: fmt.Appendf(nil,
				`{"desired":%d,"active":0,"succeeded":%d,"failed":0,"startTime":"2026-03-01T15:00:00Z"}`, r.total[""],
				r.updated[""])},
		}}
		report.Halted = a.halt
	}
	if err := a.f.client.Status().Patch(ctx, w, client.MergeFrom(base)); err != nil && !errors.Is(err, context.Canceled) &&
		!apierrors.IsNotFound(err) {
		a.f.t.Logf("report of %s, which is sent again: %v", a.name, err)
		r.generation = 0
	}
}
