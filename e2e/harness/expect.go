package harness

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/judge"
	"github.com/flotilla-dev/flotilla/e2e/kinds"
)

// Namespace makes a federated namespace on the hub that goes after the spec, with all that was placed from it. Its
// workloads go first: the namespace controller lets 5 s pass before it deletes anything, and the next spec would wait
// for that.
func (h *Harness) Namespace(ctx context.Context, name string) string {
	return h.Hub.namespace(ctx, federatedNamespace(name))
}

// PlainNamespace makes a namespace in the cluster that no hub cares for.
func (c *Cluster) PlainNamespace(ctx context.Context, name string) string {
	return c.namespace(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: name + "-"}})
}

func (c *Cluster) namespace(ctx context.Context, namespace *corev1.Namespace) string {
	gomega.ExpectWithOffset(2, c.Client.Create(ctx, namespace)).To(gomega.Succeed())
	ginkgo.DeferCleanup(func(ctx context.Context) {
		for _, kind := range slices.Backward(kinds.All()) { // what owns others comes later in the table
			workload := &unstructured.Unstructured{}
			workload.SetGroupVersionKind(kind.GroupVersionKind)
			gomega.Expect(c.Client.DeleteAllOf(ctx, workload, client.InNamespace(namespace.Name))).To(gomega.Succeed())
		}
		gomega.Expect(client.IgnoreNotFound(c.Client.Delete(ctx, namespace))).To(gomega.Succeed())
	})
	return namespace.Name
}

// eventually waits until problem finds none.
func eventually(ctx context.Context, what string, problem func(context.Context) (string, error)) {
	gomega.EventuallyWithOffset(2, ctx, func(ctx context.Context) error {
		wrong, err := problem(ctx)
		if err == nil && wrong != "" {
			err = fmt.Errorf("%s", wrong)
		}
		return err
	}).WithTimeout(Patience).WithPolling(polling).Should(gomega.Succeed(), what)
}

// ExpectAtRest waits until the workload on the hub is Ready with this number of replicas, and every counter of its
// status is the sum of the members' pods.
func (h *Harness) ExpectAtRest(ctx context.Context, w Workload, replicas int) {
	eventually(ctx, w.Sentence()+" at rest",
		func(ctx context.Context) (string, error) {
			return h.settled(ctx, h.Hub, w, replicas)
		})
}

// ExpectAtRestIn is ExpectAtRest for an object of a member.
func (h *Harness) ExpectAtRestIn(ctx context.Context, member string, w Workload, replicas int) {
	eventually(ctx, w.Sentence()+" at rest in "+member, func(ctx context.Context) (string, error) {
		return h.settled(ctx, h.Members[member], w, replicas)
	})
}

// ExpectStatusEqualsPods waits until every counter of the workload's status on the hub is the sum of the members' pods,
// whether it is Ready or not.
func (h *Harness) ExpectStatusEqualsPods(ctx context.Context, w Workload, replicas int) {
	eventually(ctx, "status of "+w.Sentence(), func(ctx context.Context) (string, error) {
		object, err := h.Hub.Get(ctx, w)
		if err != nil {
			return "", err
		}
		status, _, _ := unstructured.NestedMap(object.Object, "status")
		return h.sumsDiffer(object, status, w, replicas)
	})
}

// ExpectPods waits until the workload's pods, counted by key, are these; zeros may be left out.
func (h *Harness) ExpectPods(ctx context.Context, w Workload, key func(judge.PodView) string, want map[string]int) {
	eventually(ctx, "pods of "+w.Sentence(), func(context.Context) (string, error) {
		if have := Count(h.PodsOf(w), key); !maps.Equal(have, withoutZeros(want)) {
			return fmt.Sprintf("pods %v, want %v", have, want), nil
		}
		return "", nil
	})
}

// ExpectPlaced waits until the placement gives each cluster this number of replicas.
func (h *Harness) ExpectPlaced(ctx context.Context, w Workload, want map[string]int) {
	eventually(ctx, "placement of "+w.Sentence(), func(ctx context.Context) (string, error) {
		p, err := h.Placement(ctx, w)
		if err != nil {
			return "", err
		}
		if p == nil {
			return "there is none", nil
		}
		have := map[string]int{}
		for i := range p.Spec.Cells {
			have[p.Spec.Cells[i].Cluster] += int(p.Spec.Cells[i].Replicas)
		}
		if !maps.Equal(withoutZeros(have), withoutZeros(want)) {
			return fmt.Sprintf("placed %v, want %v", have, want), nil
		}
		return "", nil
	})
}

func withoutZeros(counts map[string]int) map[string]int {
	out := maps.Clone(counts)
	maps.DeleteFunc(out, func(_ string, n int) bool { return n == 0 })
	return out
}

// MustPlacement returns the workload's placement; the spec fails where there is none.
func (h *Harness) MustPlacement(ctx context.Context, w Workload) *topology.WorkloadPlacement {
	p, err := h.Placement(ctx, w)
	gomega.ExpectWithOffset(1, err).NotTo(gomega.HaveOccurred())
	gomega.ExpectWithOffset(1, p).NotTo(gomega.BeNil(), "%s has no placement", w.Sentence())
	return p
}

// ExpectTold waits until a condition of the workload on the hub has this type, status and reason, and its message holds
// every one of the words: the object, the value and the remedy.
func (h *Harness) ExpectTold(ctx context.Context, w Workload, condition metav1.Condition, words ...string) {
	eventually(ctx, "what is told of "+w.Sentence(), func(ctx context.Context) (string, error) {
		object, err := h.Hub.Get(ctx, w)
		if err != nil {
			return "", err
		}
		return told(object, condition, words)
	})
}

// ExpectToldOf is ExpectTold for any object of the hub, by kind and name as kubectl takes them.
func (h *Harness) ExpectToldOf(ctx context.Context, object *unstructured.Unstructured, condition metav1.Condition,
	words ...string) {
	eventually(ctx, "what is told of "+object.GetKind()+" "+object.GetName(), func(ctx context.Context) (string, error) {
		if err := h.Hub.Client.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return "", err
		}
		return told(object, condition, words)
	})
}

// TopologyObject names an object of the group topology.flotilla.dev; namespace may be empty.
func TopologyObject(kind, namespace, name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(topology.GroupVersion.WithKind(kind))
	object.SetNamespace(namespace)
	object.SetName(name)
	return object
}

// told says what is missing of a condition, "" if nothing is.
func told(object *unstructured.Unstructured, want metav1.Condition, words []string) (string, error) {
	conditions, err := Conditions(object)
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(conditions, func(c metav1.Condition) bool { return c.Type == want.Type })
	if i < 0 {
		return fmt.Sprintf("no condition %s: %+v", want.Type, conditions), nil
	}
	have := conditions[i]
	if have.Status != want.Status || want.Reason != "" && have.Reason != want.Reason {
		return fmt.Sprintf("condition %s is %s %s %q, want %s %s", have.Type, have.Status, have.Reason, have.Message,
			want.Status, want.Reason), nil
	}
	for _, word := range words {
		if !strings.Contains(have.Message, word) {
			return fmt.Sprintf("the message of condition %s lacks %q: %s", have.Type, word, have.Message), nil
		}
	}
	return "", nil
}

// ExpectGone waits until nothing is left of the workload: no placement, no Works, and in the members neither the object
// nor a pod.
func (h *Harness) ExpectGone(ctx context.Context, w Workload) {
	eventually(ctx, "nothing left of "+w.Sentence(), func(ctx context.Context) (string, error) {
		p, err := h.Placement(ctx, w)
		if err != nil {
			return "", err
		}
		if p != nil {
			return "the placement is there", nil
		}
		works, err := h.Works(ctx, w)
		if err != nil || len(works) > 0 {
			return fmt.Sprintf("Works %v are there", works), err
		}
		for _, name := range h.MemberNames() {
			left, err := h.Members[name].owned(ctx, w.Namespace)
			if err != nil || left != "" {
				return name + " has " + left, err
			}
		}
		if left := h.Pods.Left(w.Namespace); left > 0 {
			return fmt.Sprintf("%d pods are there", left), nil
		}
		return "", nil
	})
}

// owned names the first workload of a namespace of the member, of any kind that Works and their children have.
func (c *Cluster) owned(ctx context.Context, namespace string) (string, error) {
	for _, kind := range []string{"apps.kruise.io/v1beta1/UnitedDeployment", "apps.kruise.io/v1beta1/CloneSet",
		"apps/v1/Deployment", "apps/v1/ReplicaSet", "apps/v1/StatefulSet"} {
		at := strings.LastIndex(kind, "/")
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion(kind[:at])
		list.SetKind(kind[at+1:] + "List")
		if err := c.Client.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return "", fmt.Errorf("list %s in %s: %w", kind, c.Name, err)
		}
		if len(list.Items) > 0 {
			return kind[at+1:] + " " + list.Items[0].GetName(), nil
		}
	}
	return "", nil
}

// AtRest says in what the workload on the hub is not at rest with this number of replicas, as ExpectAtRest wants it; ""
// if it is.
func (h *Harness) AtRest(ctx context.Context, w Workload, replicas int) (string, error) {
	return h.settled(ctx, h.Hub, w, replicas)
}
