package mutator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/member-agent/admission"
)

// TestPods plays the stories on one cluster, one after the other.
func TestPods(t *testing.T) {
	w := newWorld(t)
	story := func(name string, play func(*world)) {
		t.Run(name, func(t *testing.T) {
			in := *w
			in.TB = t
			play(&in)
		})
		if t.Failed() {
			t.FailNow()
		}
	}
	story("without targets there is no configuration", func(w *world) {
		ws := newSpread("apps.kruise.io/v1beta1", "CloneSet", "web", "1", "")
		w.must(w.Client.Create(w.Context(), ws))
		if c := w.configuration(); c != nil {
			t.Errorf("%+v", c)
		}
	})
	story("only pods of targets are asked about", whoIsAsked)
	story("percentages of a Deployment, and every version anew", percentages)
	story("numbers", numbers)
	story("a StatefulSet by ordinals", ordinals)
	story("a Job", job)
	story("nobody answers", nobodyAnswers)
	story("many at once", manyAtOnce)
	story("the longest expression", longestExpression)
	story("more targets than an expression names", tooManyNames)
	story("written only when it changes", steady)
	w.startReplica(false)
	story("two replicas", twoReplicas)
	story("without targets the configuration goes", func(w *world) {
		w.must(w.DeleteAllOf(w.Context(), newSpread("", "", ""), client.InNamespace("default")))
		w.eventually("the configuration is gone", func() string {
			if w.configuration() != nil {
				return "it is there"
			}
			return ""
		})
	})
}

func whoIsAsked(w *world) {
	for _, name := range []string{"other", "federated"} {
		w.must(w.Client.Create(w.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
		w.eventually("pods can be made in "+name, func() string {
			key := client.ObjectKey{Namespace: name, Name: "default"}
			if err := w.Get(w.Context(), key, &corev1.ServiceAccount{}); err != nil {
				return err.Error()
			}
			return ""
		})
	}
	hubs := newSpread("apps/v1", "Deployment", "web", "1", "")
	hubs.Namespace = "federated"
	w.must(w.Client.Create(w.Context(), hubs))
	w.create(newSpread("apps/v1", "Deployment", "web", "1", ""))
	w.create(newSpread("apps/v1", "ReplicaSet", "set", "1", ""))
	w.create(newSpread("apps/v1", "StatefulSet", "db", "1", ""))
	w.create(newSpread("batch/v1", "Job", "j", "1", ""))
	of := func(kind, name string) target {
		return target{kind, types.NamespacedName{Namespace: "default", Name: name}}
	}
	owner := func(t target, change func(*metav1.OwnerReference)) *corev1.Pod {
		pod := podOf(t, "x")
		change(&pod.OwnerReferences[0])
		return pod
	}
	label := func(t target, key, value string) *corev1.Pod {
		pod := podOf(t, "x")
		pod.Labels[key] = value
		return pod
	}
	in := func(t target, namespace string) *corev1.Pod {
		pod := podOf(t, "x")
		pod.Namespace = namespace
		return pod
	}
	bare := func(change func(*corev1.Pod)) *corev1.Pod {
		pod := podOf(of(kindJob, "j"), "x")
		pod.OwnerReferences = nil
		change(pod)
		return pod
	}
	for i, tt := range []struct {
		who  string
		pod  *corev1.Pod
		want bool
	}{
		{"the Deployment's", podOf(of(kindDeployment, "web"), "x"), true},
		{"the ReplicaSet's", podOf(of(kindReplicaSet, "set"), "x"), true},
		{"the StatefulSet's", podOf(of(kindStatefulSet, "db"), "x"), true},
		{"the Job's", podOf(of(kindJob, "j"), "x"), true},
		{"one with a second owner", func() *corev1.Pod {
			pod := podOf(of(kindJob, "j"), "x")
			second := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "c", UID: "1"}
			pod.OwnerReferences = append([]metav1.OwnerReference{second}, pod.OwnerReferences...)
			return pod
		}(), true},
		{"another Deployment's", podOf(of(kindDeployment, "webs"), "x"), false},
		{"a Deployment's with a longer name", podOf(of(kindDeployment, "web-web"), "x"), false},
		{"a Deployment's with a shorter name", podOf(of(kindDeployment, "we"), "x"), false},
		{"a ReplicaSet's called as the Deployment", podOf(of(kindReplicaSet, "web"), "x"), false},
		{"a ReplicaSet's with another hash", label(of(kindDeployment, "web"), labelTemplateHash, "xyz"), false},
		{"a ReplicaSet's with an empty hash", label(of(kindDeployment, "web"), labelTemplateHash, ""), false},
		{"a ReplicaSet's whose whole name is the hash", owner(of(kindDeployment, "web"), func(o *metav1.OwnerReference) {
			o.Name = hash
		}), false},
		{"a StatefulSet's with the Job's name", podOf(of(kindStatefulSet, "j"), "x"), false},
		{"an advanced StatefulSet's", owner(of(kindStatefulSet, "db"), func(o *metav1.OwnerReference) {
			o.APIVersion = "apps.kruise.io/v1beta1"
		}), false},
		{"a CloneSet's", owner(of(kindStatefulSet, "web"), func(o *metav1.OwnerReference) {
			o.APIVersion, o.Kind = "apps.kruise.io/v1beta1", "CloneSet"
		}), false},
		{"a DaemonSet's", owner(of(kindStatefulSet, "web"), func(o *metav1.OwnerReference) { o.Kind = "DaemonSet" }), false},
		{"one whose owner is no controller", owner(of(kindJob, "j"), func(o *metav1.OwnerReference) {
			o.Controller = nil
		}), false},
		{"one whose owner says that it is no controller", owner(of(kindJob, "j"), func(o *metav1.OwnerReference) {
			o.Controller = new(false)
		}), false},
		{"nobody's", bare(func(*corev1.Pod) {}), false},
		{"nobody's without labels", bare(func(pod *corev1.Pod) { pod.GenerateName, pod.Name = "", "lonely" }), false},
		{"in another namespace", in(of(kindDeployment, "web"), "other"), false},
		{"in a namespace of the hub", in(of(kindDeployment, "web"), "federated"), false},
	} {
		app := fmt.Sprint("who-", i)
		tt.pod.Labels["app"] = app
		w.must(w.Client.Create(w.Context(), tt.pod, client.DryRunAll))
		if got := w.server.asked(app) > 0; got != tt.want {
			w.Errorf("%s pod: asked %v, want %v", tt.who, got, tt.want)
		}
	}
	// A pod without any label or owner has neither field.
	plain := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "plain"}, Spec: template("x").Spec}
	before := w.server.total()
	w.must(w.Client.Create(w.Context(), plain, client.DryRunAll))
	if after := w.server.total(); after != before {
		w.Error("asked about a pod without labels and owners")
	}
	for _, name := range []string{"deployment-web", "replicaset-set", "statefulset-db", "job-j"} {
		ws := newSpread("", "", "")
		ws.Name = name
		w.must(w.Delete(w.Context(), ws))
	}
	w.asks(of(kindJob, "j"), false)
}

func percentages(w *world) {
	w.create(newSpread("apps/v1", "Deployment", "pct", "30%", "70%"))
	w.must(w.Client.Create(w.Context(), newDeployment("pct", 10)))
	if got := w.spreadOver(w.running("pct", 10)); got != "a=3 b=7" {
		w.Errorf("10 pods: %s", got)
	}
	w.change("pct", func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "web:2" })
	w.eventually("the new version runs alone", func() string {
		for _, pod := range w.pods("pct") {
			if pod.Spec.Containers[0].Image != "web:2" {
				return pod.Name + " is old"
			}
		}
		return ""
	})
	if got := w.spreadOver(w.running("pct", 10)); got != "a=3 b=7" {
		w.Errorf("the new version: %s", got)
	}
	w.change("pct", func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(20)) })
	if got := w.spreadOver(w.running("pct", 20)); got != "a=6 b=14" {
		w.Errorf("20 pods: %s", got)
	}
}

func numbers(w *world) {
	w.create(newSpread("apps/v1", "Deployment", "num", "2", "1"))
	w.must(w.Client.Create(w.Context(), newDeployment("num", 5)))
	pods := w.running("num", 5)
	if got := w.spreadOver(pods); got != "a=2 b=1 none=2" {
		w.Errorf("5 pods: %s", got)
	}
	for i := range pods {
		want := map[string]string{"a": "200", "b": "100", "": "-300"}[given(&pods[i]).Subset]
		if got := pods[i].Annotations[corev1.PodDeletionCost]; got != want {
			w.Errorf("a pod of subset %q has the deletion cost %q, want %s", given(&pods[i]).Subset, got, want)
		}
	}
	w.change("num", func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(2)) })
	if got := w.spreadOver(w.running("num", 2)); got != "a=2" {
		w.Errorf("2 pods are left: %s", got)
	}
}

func ordinals(w *world) {
	w.create(newSpread("apps/v1", "StatefulSet", "ord", "2", "2", ""))
	w.must(w.Client.Create(w.Context(), &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "ord"},
		Spec: appsv1.StatefulSetSpec{
			Replicas: new(
				int32(6),
			), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "ord"}}, Template: template("ord"),
			PodManagementPolicy: appsv1.ParallelPodManagement,
		},
	}))
	for _, pod := range w.running("ord", 6) {
		want := string("aabbcc"[pod.Name[len("ord-")]-'0'])
		if got := given(&pod).Subset; got != want || pod.Spec.NodeName != "solo-"+want+"-0" {
			w.Errorf("%s: subset %q on %s", pod.Name, got, pod.Spec.NodeName)
		}
	}
}

func job(w *world) {
	w.create(newSpread("batch/v1", "Job", "work", "25%", ""))
	spec := template("work")
	spec.Spec.RestartPolicy = corev1.RestartPolicyNever
	spec.Annotations = map[string]string{fleet.AnnotationRunFor: "1h"}
	w.must(w.Client.Create(w.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "work"},
		Spec:       batchv1.JobSpec{Parallelism: new(int32(8)), Completions: new(int32(8)), Template: spec},
	}))
	if got := w.spreadOver(w.running("work", 8)); got != "a=2 b=6" {
		w.Errorf("8 pods: %s", got)
	}
}

// nobodyAnswers stops the server, and lets it hang: pods start all the same, and those that no WorkloadSpread is for
// never wait.
func nobodyAnswers(w *world) {
	w.create(newSpread("apps/v1", "Deployment", "alone", "30%", "70%"))
	w.must(w.Client.Create(w.Context(), newDeployment("alone", 10)))
	w.running("alone", 10)
	w.server.stop()
	w.change("alone", func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(20)) })
	w.must(w.Client.Create(w.Context(), newDeployment("stranger", 10)))
	if got := w.spreadOver(w.running("alone", 20)); got != "a=3 b=7 none=10" {
		w.Errorf("pods while the server is down: %s", got)
	}
	w.running("stranger", 10)
	w.server.start()
	w.change("alone", func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(30)) })
	if got := w.spreadOver(w.running("alone", 30)); got != "a=9 b=11 none=10" {
		w.Errorf("pods after the server is back: %s", got)
	}
	w.server.hang(true)
	before := w.server.total()
	w.change("stranger", func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(40)) })
	w.running("stranger", 40)
	if after := w.server.total(); after != before || w.server.asked("stranger") > 0 {
		w.Errorf("asked %d times about pods that no WorkloadSpread is for", after-before)
	}
	w.change("alone", func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(31)) })
	if got := w.spreadOver(w.running("alone", 31)); got != "a=9 b=11 none=11" {
		w.Errorf("pods while the server hangs: %s", got)
	}
	w.server.hang(false)
}

// manyAtOnce creates 100 pods of five Deployments at the same time. One replica never exceeds a cap.
func manyAtOnce(w *world) {
	for i := range 5 {
		w.create(newSpread("apps/v1", "Deployment", fmt.Sprint("many-", i), "7", "5", ""))
	}
	var group sync.WaitGroup
	for i := range 5 {
		group.Go(func() {
			if err := w.Client.Create(w.Context(), newDeployment(fmt.Sprint("many-", i), 20)); err != nil {
				w.Error(err)
			}
		})
	}
	group.Wait()
	for i := range 5 {
		name := fmt.Sprint("many-", i)
		if got := w.spreadOver(w.running(name, 20)); got != "a=7 b=5 c=8" {
			w.Errorf("%s: %s", name, got)
		}
	}
}

// twoReplicas have one Deployment's pods admitted by two replicas in turns. Each knows its own admissions only, and
// those pods that its cache shows.
func twoReplicas(w *world) {
	const limit, replicas = 10, 60
	w.create(newSpread("apps/v1", "Deployment", "two", fmt.Sprint(limit), ""))
	w.eventually("both replicas know the cluster", func() string {
		for range 2 {
			pod := podOf(target{kindDeployment, types.NamespacedName{Namespace: "default", Name: "two"}}, "x")
			w.must(w.Client.Create(w.Context(), pod, client.DryRunAll))
			if given(pod).Subset != "a" {
				return "one does not"
			}
		}
		return ""
	})
	w.must(w.Client.Create(w.Context(), newDeployment("two", replicas)))
	pods := w.running("two", replicas)
	n := strings.Count(strings.Join(subsetsOf(pods), ""), "a")
	w.Logf("two replicas: %d pods in a subset of %d", n, limit)
	if n < limit || n > 2*limit {
		w.Errorf("%d pods in a subset of %d: each of two replicas fills a place at most once", n, limit)
	}
	if got := len(subsetsOf(pods)); got != replicas {
		w.Errorf("%d of %d pods have a subset", got, replicas)
	}
}

// subsetsOf returns the subsets of the pods that have one.
func subsetsOf(pods []corev1.Pod) []string {
	var out []string
	for i := range pods {
		if subset := given(&pods[i]).Subset; subset != "" {
			out = append(out, subset)
		}
	}
	return out
}

// besides creates a configuration of the same form beside ours for the condition, which stands until the test ends.
func besides(w *world, condition string) {
	w.Helper()
	ours := w.configuration()
	c := &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "besides-"}, Webhooks: ours.Webhooks[:1],
	}
	c.Webhooks[0].MatchConditions[0].Expression = condition
	w.must(w.Client.Create(w.Context(), c))
	w.Cleanup(func() {
		if err := w.Delete(context.WithoutCancel(w.Context()), c); err != nil {
			w.Error(err)
		}
	})
}

// longestExpression has the API server evaluate the longest expression that there can be, twice: it costs less than
// half of what an API server allows.
func longestExpression(w *world) {
	last := target{kindDeployment, types.NamespacedName{Namespace: "default", Name: "zz-the-last-of-all"}}
	targets := []target{last}
	for i := 0; ; i++ {
		more := append(
			slices.Clone(targets),
			target{
				[]string{kindDeployment, kindReplicaSet, kindStatefulSet, kindJob}[i%4],
				types.NamespacedName{Namespace: "default", Name: fmt.Sprintf("workload-of-usual-length-%05d", i)},
			},
		)
		if narrow, _ := conditions(more); utf8.RuneCountInString(narrow) > admission.MaxConditions {
			break
		}
		targets = more
	}
	narrow, _ := conditions(targets)
	w.Logf("%d workloads in %d characters", len(targets), len(narrow))
	besides(w, "[1, 2].exists(i, "+narrow+")")
	for _, t := range []target{last, targets[1], targets[2], targets[3], targets[len(targets)-1]} {
		w.asks(t, true)
	}
	before := w.server.total()
	w.must(
		w.Client.Create(
			w.Context(),
			podOf(target{kindDeployment, types.NamespacedName{Namespace: "default", Name: "nobody"}}, "x"),
			client.DryRunAll,
		),
	)
	if w.server.total() != before {
		w.Error("asked about a pod of no target")
	}
	w.Logf("of the API server:\n%s", w.conditionMetrics())
}

// tooManyNames falls back to the kinds of the owners: nobody else's pods are touched, and pods of other kinds are not
// asked about.
func tooManyNames(w *world) {
	targets := manyTargets(5000, 1, kindDeployment)
	for i := range targets {
		targets[i].Namespace = "default"
	}
	_, wide := conditions(targets)
	besides(w, wide)
	w.asks(targets[4999], true)
	other := target{kindDeployment, types.NamespacedName{Namespace: "default", Name: "nobody"}}
	w.asks(other, true)
	w.asks(target{kindJob, types.NamespacedName{Namespace: "default", Name: "nobody"}}, false)
	pod := podOf(other, "x")
	w.must(w.Client.Create(w.Context(), pod, client.DryRunAll))
	if len(pod.Annotations) > 0 || pod.Spec.Affinity != nil {
		w.Errorf("a pod of no target was changed: %+v", pod)
	}
}

func steady(w *world) {
	w.asks(target{kindDeployment, types.NamespacedName{Namespace: "default", Name: "nobody"}}, false)
	before := w.configuration()
	clone := newSpread("apps.kruise.io/v1beta1", "CloneSet", "not-asked", "1", "")
	w.must(w.Client.Create(w.Context(), clone))
	w.must(w.Delete(w.Context(), clone))
	second := newSpread("batch/v1", "Job", "work", "1", "")
	second.Name = "a-second-one-of-the-same"
	w.must(w.Client.Create(w.Context(), second))
	w.create(newSpread("apps/v1", "Deployment", "steady", "1", ""))
	after := w.configuration()
	if after.Generation != before.Generation+1 {
		w.Errorf("one more workload is a change from generation %d to %d", before.Generation, after.Generation)
	}
	// Somebody breaks it.
	broken := after.DeepCopy()
	broken.Webhooks[0].FailurePolicy = new(admissionregistrationv1.Fail)
	broken.Webhooks[0].MatchConditions = nil
	w.must(w.Update(w.Context(), broken))
	w.eventually("it is put right", func() string {
		if now := w.configuration(); !equality.Semantic.DeepEqual(now.Webhooks, after.Webhooks) {
			return fmt.Sprintf("generation %d", now.Generation)
		}
		return ""
	})
	if got := w.configuration(); got.UID != before.UID {
		w.Error("it was made anew")
	}
	// Somebody excludes namespaces.
	narrowed := w.configuration()
	excluded := metav1.LabelSelectorRequirement{Key: "control-plane", Operator: metav1.LabelSelectorOpDoesNotExist}
	narrowed.Webhooks[0].NamespaceSelector.MatchExpressions = append(
		narrowed.Webhooks[0].NamespaceSelector.MatchExpressions,
		excluded,
	)
	w.must(w.Update(w.Context(), narrowed))
	w.create(newSpread("apps/v1", "Deployment", "steadier", "1", ""))
	got := w.configuration()
	if requirements := got.Webhooks[0].NamespaceSelector.MatchExpressions; len(requirements) != 2 ||
		requirements[1].Key != excluded.Key {
		w.Errorf("what others exclude: %+v", requirements)
	}
	if got.Generation != narrowed.Generation+1 {
		w.Errorf(
			"a change by somebody else and one more workload: from generation %d to %d",
			narrowed.Generation,
			got.Generation,
		)
	}
}
