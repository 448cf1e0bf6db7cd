package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	policy "github.com/flotilla-dev/flotilla/apis/policy/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// budgetOf returns the name of the budget of a workload's pods.
func budgetOf(workload string) string { return workload + "-budget" }

// protect makes a budget for the pods of each workload that has a limit for others, and the policy for budgets.
func (s *stage) protect(ctx context.Context, namespace string, users []*user) error {
	federate := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": topology.GroupVersion.String(), "kind": "FederationPolicy",
		"metadata": map[string]any{"name": "budgets", "namespace": namespace},
		"spec": map[string]any{"workloads": []any{map[string]any{
			"apiVersion": policy.GroupVersion.String(), "kind": policy.PodUnavailableBudgetKind.Kind}}},
	}}
	if err := s.h.Hub.Client.Create(ctx, federate); err != nil {
		return fmt.Errorf("create the policy for budgets: %w", err)
	}
	for _, u := range users {
		if u.evictable == 0 {
			continue
		}
		pub := &policy.PodUnavailableBudget{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: budgetOf(u.name)}}
		pub.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": u.name}}
		pub.Spec.MaxUnavailable = new(intstr.FromInt32(u.evictable))
		if err := s.h.Hub.Client.Create(ctx, pub); err != nil {
			return fmt.Errorf("create PodUnavailableBudget %s: %w", pub.Name, err)
		}
	}
	return nil
}

// evict asks for several pods of one workload to be evicted in one or two members, all at the same time. Most are
// refused.
func (f *faults) evict(ctx context.Context, draw *rand.Rand) {
	protected := slices.DeleteFunc(scenes(), func(s scene) bool { return s.evictable == 0 })
	name := protected[draw.IntN(len(protected))].name
	members := map[string]bool{f.member(draw): true, f.member(draw): true}
	if !f.take("evictions", name+" evictions") {
		return
	}
	defer f.release(name + " evictions")
	const most = 12
	var asked sync.WaitGroup
	n := 0
	for _, pod := range f.h.Pods.Pods(f.namespace) {
		if n >= most || !members[pod.Cluster] || !strings.HasPrefix(pod.Name, name+"-") || draw.IntN(3) == 0 {
			continue
		}
		n++
		asked.Go(func() {
			eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
			target := &corev1.Pod{ObjectMeta: eviction.ObjectMeta}
			// It is refused, or the pod is gone, or its API server is away.
			_ = f.h.Members[pod.Cluster].Client.SubResource("eviction").Create(ctx, target, eviction)
		})
	}
	f.note("", "%d pods of %s are to be evicted at a time", n, name)
	asked.Wait()
}
