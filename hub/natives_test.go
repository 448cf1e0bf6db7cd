package hub_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub"
)

// bare is a hub that is told that its API server runs no workloads, as those of these tests do.
func bare(o *hub.Options) { o.RunsNoWorkloads = true }

// create makes an object of the test's namespace from YAML without one.
func (f *fleet) create(text string) *unstructured.Unstructured {
	f.t.Helper()
	u := &unstructured.Unstructured{}
	must(f.t, yaml.Unmarshal([]byte(text), &u.Object))
	u.SetNamespace(f.namespace)
	must(f.t, f.client.Create(f.ctx, u))
	return u
}

// native returns a workload of apps/v1 named web with a pod template, and more fields of the spec.
func native(kind, more string) string {
	return fmt.Sprintf("{apiVersion: apps/v1, kind: %s, metadata: {name: web}, spec: {selector: {matchLabels: {app: "+
		"web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: main, image: web}]}}%s}}", kind, more)
}

const onceTemplate = "template: {spec: {restartPolicy: Never, containers: [{name: main, image: web}]}}"

// nativePolicy selects all workloads of apps/v1 and batch/v1.
func nativePolicy(s *topology.FederationPolicySpec) {
	s.Workloads = nil
	for _, kind := range []string{"DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"} {
		s.Workloads = append(s.Workloads, topology.WorkloadSelector{APIVersion: "apps/v1", Kind: kind})
	}
	for _, kind := range []string{"CronJob", "Job"} {
		s.Workloads = append(s.Workloads, topology.WorkloadSelector{APIVersion: "batch/v1", Kind: kind})
	}
	s.Clusters.Names = []string{"east", "west"}
}

// TestWorkloadsOfABareHub carries Kubernetes' own workloads to members, where the hub's API server runs none of them.
func TestWorkloadsOfABareHub(t *testing.T) {
	t.Parallel() // most of its time is waiting
	f := newFleet(t, threeMembers, bare)
	deployment := f.create(native("Deployment", ", replicas: 3"))
	// As a backup of a whole cluster brings it: the member's Deployment makes its own.
	owned := strings.Replace(native("ReplicaSet", ", replicas: 3"), "{name: web}", fmt.Sprintf(
		"{name: web-1, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web, uid: %q, controller: true}]}",
		deployment.GetUID()), 1)
	f.create(owned)
	f.create(native("ReplicaSet", ", replicas: 1"))
	set := f.create(native("StatefulSet", ", replicas: 2, serviceName: web"))
	f.create(native("DaemonSet", ""))
	f.create("{apiVersion: batch/v1, kind: Job, metadata: {name: web}, spec: {ttlSecondsAfterFinished: 5, " +
		onceTemplate + "}}")
	f.create("{apiVersion: batch/v1, kind: CronJob, metadata: {name: web}, spec: {schedule: \"* * * * *\", jobTemplate: " +
		"{spec: {ttlSecondsAfterFinished: 5, " + onceTemplate + "}}}}")
	p := f.policy("native", nativePolicy)
	for _, kind := range []string{"CronJob", "DaemonSet", "Deployment", "Job", "ReplicaSet", "StatefulSet"} {
		for member, manifest := range f.in(kind, "web", "east west") {
			text := fmt.Sprint(manifest)
			for _, own := range []string{"status:map", "uid", "topology.flotilla.dev", "resourceVersion"} {
				if strings.Contains(text, own) {
					t.Errorf("the %s of %s has %s, which is the hub's own: %s", kind, member, own, text)
				}
			}
			if !strings.Contains(text, "image:web") {
				t.Errorf("the %s of %s lacks the template: %s", kind, member, text)
			}
			if ttl := strings.Contains(text, "ttlSecondsAfterFinished"); ttl != (kind == "CronJob") {
				t.Errorf("whether a %s of %s ends by itself: %v", kind, member, ttl)
			}
		}
		w := &work.Work{}
		must(t, f.client.Get(f.ctx, keyOf(kind, f.namespace, "web").Work("east"), w))
		if w.Annotations[topology.AnnotationHubID] != f.hubID || w.Annotations[topology.AnnotationSequence] == "" ||
			!slices.Contains(w.Finalizers, work.ExecutionFinalizer) {
			t.Errorf("the Work of the %s has the annotations %v and the finalizers %v", kind, w.Annotations, w.Finalizers)
		}
	}
	f.eventually("the policy holds", func() error {
		return f.policyIs("native", topology.PolicyInForce, "the policy holds")
	})
	f.rest()
	f.in("ReplicaSet", "web-1", "")
	now := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apps/v1", "kind": "Deployment"}}
	must(t, f.client.Get(f.ctx, client.ObjectKeyFromObject(deployment), now))
	if now.GetResourceVersion() != deployment.GetResourceVersion() {
		t.Errorf("somebody wrote the Deployment: %v", now.Object)
	}

	// What it holds changes; a restarted hub writes nothing; a member that is selected no longer has it no more.
	f.patchObject(deployment, `{"spec":{"replicas":5}}`)
	f.eventually("the change is in every member", func() error {
		for member, manifest := range f.works("Deployment", "web") {
			if n, _, _ := unstructured.NestedFieldNoCopy(manifest, "spec", "replicas"); fmt.Sprint(n) != "5" {
				return fmt.Errorf("%s has %v", member, n)
			}
		}
		return nil
	})
	f.rest()
	f.stopHub()
	f.startHub()
	f.writes.take()
	if wrote, _ := f.about(f.quiet()); len(wrote) > 0 {
		t.Errorf("a restarted hub wrote %v", wrote)
	}
	base := p.DeepCopy()
	p.Spec.Clusters.Names = []string{"east"}
	must(t, f.client.Patch(f.ctx, p, client.MergeFrom(base)))
	f.in("Deployment", "web", "east")

	// Without a policy it is frozen, withdrawn it goes, and deleted it goes with its placement.
	must(t, f.client.Delete(f.ctx, p))
	f.eventually("the placement tells that no policy holds", func() error {
		return f.stalled("Deployment", "web", "PolicyMissing", "")
	})
	f.in("Deployment", "web", "east")
	f.patchObject(set, `{"metadata":{"annotations":{"topology.flotilla.dev/withdraw":"true"}}}`)
	f.in("StatefulSet", "web", "")
	must(t, f.client.Delete(f.ctx, deployment))
	f.in("Deployment", "web", "")
	f.eventually("the placement is gone", func() error {
		if _, err := f.placement("Deployment", "web"); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there (%w)", err)
		}
		return nil
	})
}

// stalled tells whether the placement of a copied object says why nothing moves; an empty reason: that it does not.
func (f *fleet) stalled(kind, name, reason, text string) error {
	p, err := f.placement(kind, name)
	if err != nil {
		return err
	}
	c := meta.FindStatusCondition(p.Status.Conditions, "Stalled")
	switch {
	case c == nil && reason == "":
		return nil
	case c == nil:
		return errors.New("nothing stalls it")
	case c.Status != metav1.ConditionTrue || c.Reason != reason || !strings.Contains(c.Message, text):
		return fmt.Errorf("%s: %s", c.Reason, c.Message)
	}
	return nil
}

// TestWorkloadsThatRunOnABareHub has somebody run a Deployment on a hub that is told that nobody does: it is told, and
// what members have stays as it is until nobody does any more.
func TestWorkloadsThatRunOnABareHub(t *testing.T) {
	t.Parallel() // most of its time is waiting
	f := newFleet(t, map[string][]string{"east": {"a"}, "west": {"a"}}, bare)
	f.policy("native", nativePolicy)
	deployment := f.create(native("Deployment", ", replicas: 3"))
	f.in("Deployment", "web", "east west")
	must(t, f.client.Status().Patch(f.ctx, deployment.DeepCopy(),
		client.RawPatch("application/merge-patch+json", []byte(`{"status":{"observedGeneration":1,"replicas":3}}`))))
	f.eventually("the placement tells", func() error {
		return f.stalled("Deployment", "web", topology.PolicyRunsOnHub, "Deployment "+f.namespace+"/web has a status")
	})
	f.eventually("the policy tells", func() error {
		return f.policyIs("native", topology.PolicyRunsOnHub, "has a status")
	})
	f.patchObject(deployment, `{"spec":{"replicas":5}}`)
	f.quiet()
	for member, manifest := range f.in("Deployment", "web", "east west") {
		if n, _, _ := unstructured.NestedFieldNoCopy(manifest, "spec", "replicas"); fmt.Sprint(n) != "3" {
			t.Errorf("%s got %v replicas, though the hub's cluster runs them", member, n)
		}
	}
	// As docs/errors.md says.
	must(t, f.client.Status().Patch(f.ctx, deployment.DeepCopy(),
		client.RawPatch("application/json-patch+json", []byte(`[{"op": "replace", "path": "/status", "value": {}}]`))))
	f.eventually("the copies go on", func() error {
		for member, manifest := range f.works("Deployment", "web") {
			if n, _, _ := unstructured.NestedFieldNoCopy(manifest, "spec", "replicas"); fmt.Sprint(n) != "5" {
				return fmt.Errorf("%s has %v", member, n)
			}
		}
		return f.stalled("Deployment", "web", "", "")
	})
	f.eventually("the policy holds", func() error { return f.policyIs("native", topology.PolicyInForce, "") })
}
