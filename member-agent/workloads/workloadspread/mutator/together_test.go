package mutator

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/flotilla-dev/flotilla/e2e/apiserver"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/spread"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/workloadspread"
)

// startController runs the controller of WorkloadSpreads until the test ends.
func (w *world) startController() {
	w.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	mgr, err := ctrl.NewManager(rest.CopyConfig(w.config), ctrl.Options{
		Scheme: apiserver.Scheme(w), Logger: logr.Discard(), Cache: cache.Options{DefaultTransform: podset.Slim},
		Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: new(true)},
	})
	if err == nil {
		err = workloadspread.Add(ctx, &workload.Env{Manager: mgr})
	}
	if err != nil {
		cancel()
		w.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	w.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			w.Error(err)
		}
	})
}

// TestTogether does to a Deployment what users and failures do, in a random order, with the controller of
// WorkloadSpreads and two replicas that admit pods. After each step all comes to rest: every pod is in the subset of
// its node, keeps it, and has the deletion cost that the rule says.
func TestTogether(t *testing.T) {
	w := newWorld(t)
	w.startReplica(false)
	w.startController()
	for seed := range uint64(2) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			in := *w
			in.TB = t
			in.live(seed)
		})
	}
}

// live plays one life of a Deployment.
func (w *world) live(seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	name := fmt.Sprint("life-", seed)
	ws := newSpread("apps/v1", "Deployment", name, "30%", "50%", "")
	w.create(ws)
	replicas := int32(10)
	w.must(w.Client.Create(w.Context(), newDeployment(name, replicas)))
	known := map[types.UID]string{}
	up := true
	image := 1
	for step := range 12 {
		what := ""
		switch random.IntN(5) {
		case 0:
			replicas = random.Int32N(20)
			what = fmt.Sprint("scale to ", replicas)
			w.change(name, func(d *appsv1.Deployment) { d.Spec.Replicas = &replicas })
		case 1:
			image++
			what = fmt.Sprint("version ", image)
			w.change(name, func(d *appsv1.Deployment) {
				d.Spec.Template.Spec.Containers[0].Image = fmt.Sprint("web:", image)
			})
		case 2:
			what = "some pods are deleted"
			for _, pod := range w.pods(name) {
				if random.IntN(3) == 0 {
					w.must(client.IgnoreNotFound(w.Delete(w.Context(), &pod)))
				}
			}
		case 3:
			if up = !up; up {
				what = "the server starts"
				w.server.start()
			} else {
				what = "the server stops"
				w.server.stop()
			}
		case 4:
			limit := random.IntN(70)
			what = fmt.Sprintf("at most %d%% in a", limit)
			w.must(w.Get(w.Context(), client.ObjectKeyFromObject(ws), ws))
			before := ws.DeepCopy()
			ws.Spec.Subsets = zones(ws.DeepCopy(), fmt.Sprint(limit, "%"), "30%", "").Spec.Subsets
			w.must(w.Patch(w.Context(), ws, client.MergeFrom(before)))
		}
		w.Logf("step %d: %s", step, what)
		w.rest(name, replicas, fmt.Sprint("web:", image))
		for _, pod := range w.pods(name) {
			subset := given(&pod).Subset
			if had, ok := known[pod.UID]; ok && had != subset {
				w.Errorf("pod %s was in subset %s and is in %s", pod.Name, had, subset)
			}
			known[pod.UID] = subset
		}
	}
	if !up {
		w.server.start()
	}
	w.must(w.Get(w.Context(), client.ObjectKeyFromObject(ws), ws))
	before := ws.DeepCopy()
	ws.Spec.Subsets = zones(ws.DeepCopy(), "30%", "50%", "").Spec.Subsets
	w.must(w.Patch(w.Context(), ws, client.MergeFrom(before)))
	w.asks(target{kindDeployment, types.NamespacedName{Namespace: "default", Name: name}}, true)
	w.change(name, func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(0)) })
	w.rest(name, 0, "")
	w.change(name, func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(20)) })
	w.rest(name, 20, fmt.Sprint("web:", image))
	// 30 % of 20 are 6, 50 % are 10. Each of two replicas may fill a place once.
	counts := map[string]int{}
	for _, pod := range w.pods(name) {
		counts[given(&pod).Subset]++
	}
	w.Logf("from zero: %v", counts)
	if counts["a"] < 6 || counts["a"] > 12 || counts["b"] > 20 || counts["a"]+counts["b"] < 16 {
		w.Errorf("from zero: %v", counts)
	}
}

// rest waits until all pods of the Deployment run the image, each in the subset of its node, with the costs of the
// rule.
func (w *world) rest(name string, replicas int32, image string) {
	w.Helper()
	w.eventually(name+" comes to rest", func() string {
		pods := w.pods(name)
		if len(pods) != int(replicas) {
			return fmt.Sprintf("%d of %d pods", len(pods), replicas)
		}
		book := spread.Placements{Pods: map[string][]*corev1.Pod{}}
		for i := range pods {
			pod := &pods[i]
			if pod.Status.Phase != corev1.PodRunning || pod.Spec.Containers[0].Image != image {
				return pod.Name + " is not ready or old"
			}
			subset := given(pod).Subset
			if pod.Spec.NodeName != "solo-"+subset+"-0" {
				return fmt.Sprintf("%s of subset %q runs on %s", pod.Name, subset, pod.Spec.NodeName)
			}
			book.Pods[subset] = append(book.Pods[subset], pod)
		}
		ws := newSpread("apps/v1", "Deployment", name)
		w.must(w.Get(w.Context(), client.ObjectKeyFromObject(ws), ws))
		rule, err := spread.Resolve(ws, replicas)
		w.must(err)
		// Which of equal pods is above the cap does not matter here: how many have which cost does.
		want, got := map[string]int{}, map[string]int{}
		for _, cost := range rule.Costs(book) {
			want[spread.CostText(cost)]++
		}
		for i := range pods {
			got[pods[i].Annotations[corev1.PodDeletionCost]]++
		}
		if fmt.Sprint(want) != fmt.Sprint(got) {
			return fmt.Sprintf("%s: costs %v, want %v", w.spreadOver(pods), got, want)
		}
		return ""
	})
}
