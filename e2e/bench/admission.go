package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/apis/crds"
	policyv1beta1 "github.com/flotilla-dev/flotilla/apis/policy/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/member-agent/admission"
)

const (
	admissionSectionName = "admission"
	// createRate is how many pods are created in a second, over all sides together.
	createRate = 50
	// The objects that the member has.
	sidecarSets, podBudgets, workloadSpreads = 100, 100, 50
	// sidecarName is that of the container that a SidecarSet adds, and of its volume.
	sidecarName = "side"
	// labelSide is on a namespace: which side its pods are created for.
	labelSide = "bench-side"
)

// side is how new pods of a namespace are admitted; it is also the name of the namespace, and the value of labelSide.
type side string

const (
	sideChain side = "bench-chain" // by the agent
	sideNoop  side = "bench-no-op" // by a webhook that answers at once, for the same pods
	sidePatch side = "bench-patch" // by a webhook that answers at once with the agent's patch
	sideBare  side = "bench-bare"  // by nothing
)

func sides() []side { return []side{sideChain, sideNoop, sidePatch, sideBare} }

// floor names a side that the chain is compared with.
func (s side) floor() string {
	return map[side]string{sideNoop: "no-op webhook", sidePatch: "fixed patch", sideBare: "bare API server"}[s]
}

// admissionSection creates pods at a steady pace, one after the other through the agent's chain, through a webhook that
// does nothing, through one that answers with a fixed patch, and without any; then it scales a CloneSet out with a
// sidecar and without.
func admissionSection(ctx context.Context, b *bench) error {
	if err := inPendingCluster(ctx, b, func(ctx context.Context, f *fleet.Fleet, c *connection) error {
		return (&admissions{bench: b, connection: c, fleet: f}).run(ctx)
	}); err != nil {
		return err
	}
	return sidecarScaleOut(ctx, b)
}

// inPendingCluster starts a cluster without kubelets and its agent, and calls do.
func inPendingCluster(
	ctx context.Context, b *bench, do func(context.Context, *fleet.Fleet, *connection) error,
) (err error) {
	f, err := fleet.Start(ctx, fleet.Config{
		Bin: b.bin, NoHub: true, Members: []fleet.ClusterSpec{{Name: "east", NoKubelets: true}}, Progress: b.step,
	})
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			b.keepLogs(f)
		}
		err = errors.Join(err, f.Destroy())
	}()
	east := f.Member("east")
	if err := east.InstallCRDs(ctx, crds.FS); err != nil {
		return err
	}
	if _, err := b.startAgent(ctx, f, east); err != nil {
		return err
	}
	c, err := connect(east)
	if err != nil {
		return err
	}
	return do(ctx, f, c)
}

// admissions measures creations of pods.
type admissions struct {
	*bench
	*connection
	fleet *fleet.Fleet
}

func (a *admissions) run(ctx context.Context) error {
	for _, s := range sides() {
		if err := a.createNamespace(ctx, string(s), map[string]string{labelSide: string(s)}); err != nil {
			return err
		}
	}
	a.say("making %d SidecarSets, %d PodUnavailableBudgets and %d WorkloadSpreads", sidecarSets, podBudgets,
		workloadSpreads)
	if err := a.fill(ctx); err != nil {
		return err
	}
	var patch atomic.Pointer[[]byte]
	mux := http.NewServeMux()
	mux.Handle("/"+string(sideNoop), fixedAnswer(func() []byte { return nil }))
	mux.Handle("/"+string(sidePatch), fixedAnswer(func() []byte { return *patch.Load() }))
	server := httptest.NewUnstartedServer(mux)
	server.EnableHTTP2 = true // as the agent's server
	server.StartTLS()
	defer server.Close()
	if err := a.divide(ctx, server, &patch); err != nil {
		return err
	}
	if _, err := a.create(ctx, "warm", min(a.creates, 50)); err != nil {
		return err
	}
	metrics, err := a.fleet.MetricsURL(fleet.AgentName(a.cluster.Name))
	if err != nil {
		return err
	}
	before, err := readAnswers(ctx, metrics)
	if err != nil {
		return err
	}
	a.say("creating %d pods a side, %d a second over all", a.creates, createRate)
	took, err := a.create(ctx, "pod", a.creates)
	if err != nil {
		return err
	}
	after, err := readAnswers(ctx, metrics)
	if err != nil {
		return err
	}
	a.compare(took)
	return a.answered(after.since(before))
}

// fill makes the objects that select pods.
func (a *admissions) fill(ctx context.Context) error {
	return parallel(ctx, max(sidecarSets, podBudgets, workloadSpreads), func(ctx context.Context, i int) error {
		app := appOf(i)
		var objects []client.Object
		if i < sidecarSets {
			objects = append(objects, sidecarSetFor(fmt.Sprintf("set-%d", i), app, i%2 == 0))
		}
		if i < podBudgets {
			objects = append(objects, &policyv1beta1.PodUnavailableBudget{
				ObjectMeta: metav1.ObjectMeta{Namespace: string(sideChain), Name: app},
				Spec: policyv1beta1.PodUnavailableBudgetSpec{
					Selector: selector(app), MaxUnavailable: new(intstr.FromInt32(1)),
				},
			})
		}
		if i < workloadSpreads {
			objects = append(objects, &appsv1beta1.WorkloadSpread{
				ObjectMeta: metav1.ObjectMeta{Namespace: string(sideChain), Name: app},
				Spec: appsv1beta1.WorkloadSpreadSpec{
					// Pods of CloneSets get their subset from their controller.
					TargetReference: &appsv1beta1.TargetReference{APIVersion: "apps/v1", Kind: "Deployment", Name: app},
					Subsets: []appsv1beta1.WorkloadSpreadSubset{
						{Name: "a", MaxReplicas: new(intstr.FromInt32(1))}, {Name: "b"},
					},
				},
			})
		}
		for _, object := range objects {
			if err := a.Create(ctx, object); err != nil {
				return fmt.Errorf("create %T %s: %w", object, object.GetName(), err)
			}
		}
		return nil
	})
}

func appOf(i int) string { return fmt.Sprintf("app-%d", i) }

// sidecarSetFor returns a SidecarSet with one container for the pods of an application.
func sidecarSetFor(name, app string, fail bool) *appsv1beta1.SidecarSet {
	policy := appsv1beta1.SidecarSetIgnore
	if fail {
		policy = appsv1beta1.SidecarSetFail
	}
	return &appsv1beta1.SidecarSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1beta1.SidecarSetSpec{
			Selector: selector(app),
			Containers: []appsv1beta1.SidecarContainer{{
				Container: corev1.Container{Name: sidecarName, Image: "registry.example/side:v1",
					VolumeMounts: []corev1.VolumeMount{{Name: sidecarName, MountPath: "/side"}}},
			}},
			Volumes: []appsv1beta1.SidecarVolume{{Volume: corev1.Volume{Name: sidecarName,
				VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}},
			Flotilla: &appsv1beta1.SidecarSetFlotilla{FailurePolicy: policy},
		},
	}
}

// divide has the agent's webhooks asked about pods of one namespace alone, and the server about those of two others, by
// as many webhooks with the same rules and conditions. It stores the patch that the server answers with for the second
// one.
func (a *admissions) divide(ctx context.Context, server *httptest.Server, patch *atomic.Pointer[[]byte]) error {
	if err := a.eventually(ctx, "pods get their sidecars", func(ctx context.Context) string {
		return a.injected(ctx, sideChain, true)
	}); err != nil {
		return err
	}
	live, err := a.settled(ctx)
	if err != nil {
		return err
	}
	for i := range live.Webhooks {
		live.Webhooks[i].NamespaceSelector.MatchExpressions = append(live.Webhooks[i].NamespaceSelector.MatchExpressions,
			metav1.LabelSelectorRequirement{Key: labelSide, Operator: metav1.LabelSelectorOpIn,
				Values: []string{string(sideChain)}})
	}
	if err := a.Update(ctx, live); err != nil {
		return fmt.Errorf("have the agent asked about pods of namespace %s: %w", sideChain, err)
	}
	text, err := a.likePatch(ctx)
	if err != nil {
		return err
	}
	patch.Store(&text)
	for _, s := range []side{sideNoop, sidePatch} {
		if err := a.copyTo(ctx, s, live.Webhooks, server); err != nil {
			return err
		}
	}
	for _, s := range sides() {
		if err := a.eventually(ctx, "webhooks are divided", func(ctx context.Context) string {
			return a.injected(ctx, s, s == sideChain || s == sidePatch)
		}); err != nil {
			return err
		}
	}
	a.report.add(admissionSectionName, "webhook entries", "", float64(len(live.Webhooks)))
	return nil
}

// settled returns the agent's configuration when it has stood still for a few seconds: it is written once a second at
// most.
func (a *admissions) settled(ctx context.Context) (*admissionregistrationv1.MutatingWebhookConfiguration, error) {
	live, last := &admissionregistrationv1.MutatingWebhookConfiguration{}, 0
	var have []admissionregistrationv1.MutatingWebhook
	const looks = 20
	err := a.eventually(ctx, "the agent's webhooks stand still", func(ctx context.Context) string {
		live = &admissionregistrationv1.MutatingWebhookConfiguration{}
		if err := a.Get(ctx, client.ObjectKey{Name: admission.ConfigurationName}, live); err != nil {
			return err.Error()
		}
		if !equality.Semantic.DeepEqual(have, live.Webhooks) {
			have, last = live.DeepCopy().Webhooks, 0
		}
		if last++; last < looks {
			return "it was changed"
		}
		return ""
	})
	return live, err
}

// eventually calls problem until it returns "".
func (a *admissions) eventually(ctx context.Context, what string, problem func(context.Context) string) error {
	const interval, patience = 200 * time.Millisecond, time.Minute
	deadline := time.Now().Add(patience)
	for {
		text := problem(ctx)
		if text == "" {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s: not within %s: %s", what, patience, text)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(interval):
		}
	}
}

// injected says what is wrong where new pods of a side are to have sidecars, or not.
func (a *admissions) injected(ctx context.Context, s side, want bool) string {
	for _, i := range []int{0, sidecarSets / 2, sidecarSets - 1} {
		pod, err := a.core.CoreV1().Pods(string(s)).Create(ctx, podFor("probe", appOf(i)),
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return err.Error()
		}
		if got := len(pod.Spec.Containers) > 1; got != want {
			return fmt.Sprintf("sidecars in a pod of %s: %t", s, got)
		}
	}
	return ""
}

// podFor returns a pod of an application.
func podFor(name, app string) *corev1.Pod {
	t := template(app, image(1))
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: t.Labels}, Spec: t.Spec}
}

// creations are how long creations took, in ms, those of pods that a SidecarSet selects apart. Some of them failed.
type creations struct {
	selected, others []float64
	failed           int
}

func (c creations) all() []float64 { return append(append([]float64{}, c.selected...), c.others...) }

// create begins the creation of a pod at each tick, n of each side in turn, whether or not the ones before have ended.
// Every second pod of a side is selected by a SidecarSet.
func (a *admissions) create(ctx context.Context, prefix string, n int) (map[side]creations, error) {
	all := sides()
	took, errs := make([]float64, n*len(all)), make([]error, n*len(all))
	var creating sync.WaitGroup
	begin := time.Now()
	for i := range took {
		at := begin.Add(time.Duration(i) * time.Second / createRate)
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Until(at)):
		}
		creating.Go(func() {
			s, round := sideOf(i)
			app := "plain"
			if round%2 == 0 {
				app = appOf(round / 2 % sidecarSets)
			}
			pod := podFor(fmt.Sprintf("%s-%d", prefix, round), app)
			begun := time.Now()
			_, errs[i] = a.core.CoreV1().Pods(string(s)).Create(ctx, pod, metav1.CreateOptions{})
			took[i] = float64(time.Since(begun).Microseconds()) / 1000
		})
	}
	creating.Wait()
	out := map[side]creations{}
	for i := range took {
		s, round := sideOf(i)
		c := out[s]
		if errs[i] != nil {
			if c.failed++; c.failed == 1 {
				a.say("a pod of %s was not created: %v", s, errs[i])
			}
		}
		if round%2 == 0 {
			c.selected = append(c.selected, took[i])
		} else {
			c.others = append(c.others, took[i])
		}
		out[s] = c
	}
	return out, nil
}

// sideOf returns the side of creation i, and which of that side it is. Each side comes first in every fourth round.
func sideOf(i int) (s side, round int) {
	all := sides()
	round = i / len(all)
	return all[(i+round)%len(all)], round
}

// compare reports what creations took.
func (a *admissions) compare(took map[side]creations) {
	for _, s := range sides() {
		a.report.add(admissionSectionName, "creations that failed, "+string(s), "", float64(took[s].failed))
	}
	for _, of := range []struct {
		name string
		get  func(creations) []float64
	}{
		{"all pods", creations.all},
		{"pods that get a sidecar", func(c creations) []float64 { return c.selected }},
		{"pods that nothing selects", func(c creations) []float64 { return c.others }},
	} {
		chain, bare := of.get(took[sideChain]), of.get(took[sideBare])
		for _, p := range []float64{50, 99} {
			name := fmt.Sprintf("create at %d/s, P%v, %s", createRate, p, of.name)
			for _, s := range sides()[1:] {
				a.report.addWithFloor(admissionSectionName, name, "ms", percentile(chain, p), s.floor(),
					percentile(of.get(took[s]), p))
			}
		}
		a.report.add(admissionSectionName, "P99 above the bare API server, "+of.name+" (aim: 5)", "ms",
			percentile(chain, 99)-percentile(bare, 99))
	}
}

// answered reports what the agent says of its own answers.
func (a *admissions) answered(n answers) error {
	if n.count == 0 {
		return errors.New("the agent has counted no answers")
	}
	a.report.add(admissionSectionName, "answers of the agent", "", n.count)
	a.report.add(admissionSectionName, "the agent's own time, P99 at most (aim: 1)", "ms", n.quantile(0.99)*1000)
	a.report.add(admissionSectionName, "the agent's own time, mean", "ms", n.sum/n.count*1000)
	a.report.add(admissionSectionName, "answers that waited for a cache (aim: 0.1)", "%", n.waits/n.count*100)
	return nil
}
