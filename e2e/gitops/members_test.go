//go:build e2e

package gitops_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/harness"
)

// truth is how far a member's workload is, counted in its pods.
type truth struct {
	desired, held         int64 // as its spec says; held is the partition
	pods, ready, updated  int64
	paused, going, nobody bool // nobody: the member has no such object
}

// inMembers holds what the tools say of the members' objects against the pods there. A phase of the hub's object is not
// one of theirs: each has its share of the limits, and waits, runs or is done by it.
func (s *scenario) inMembers(w workload, phase string) {
	s.Helper()
	for _, member := range s.h.MemberNames() {
		Eventually(s.ctx, func(ctx context.Context) (string, error) {
			now, object, err := s.truthIn(ctx, w, member)
			if err != nil || now.nobody {
				return "", err
			}
			v := s.ask(object)[0]
			if wrong := now.contradicts(w.Kind, v); wrong != "" {
				return fmt.Sprintf("%s\n%+v\n%+v\n%v", wrong, now, v, object.Object["status"]), nil
			}
			return "", nil
		}).WithTimeout(harness.Patience).WithPolling(100*time.Millisecond).Should(BeEmpty(), "%s: %s, in %s", w, phase,
			member)
	}
}

// contradicts says what of the verdicts is not so.
func (t truth) contradicts(kind string, v verdict) string {
	done := t.pods == t.desired && t.ready == t.desired && t.updated >= t.desired-t.held
	var kstatus string
	var ours []string
	switch {
	case t.going:
		kstatus, ours = "Terminating", []string{"Progressing"}
	case done && t.updated == t.desired:
		kstatus, ours = "Current", []string{"Healthy"}
	case done:
		kstatus, ours = "Current", []string{"Suspended"}
	case t.paused && t.updated < t.desired-t.held:
		kstatus, ours = "InProgress", []string{"Suspended"}
	default:
		kstatus, ours = "InProgress", []string{"Progressing", "Degraded"}
	}
	if v.KStatus.Status != kstatus || !slices.Contains(ours, v.Ours.Status) {
		return fmt.Sprintf("of this %s kstatus is to say %s, and our check one of %v", kind, kstatus, ours)
	}
	return ""
}

// truthIn counts the pods of a member's workload. A pod is updated if it is what the template says: its image, and the
// label that the phases change.
func (s *scenario) truthIn(ctx context.Context, w workload, member string) (truth, *unstructured.Unstructured, error) {
	object, err := s.h.Members[member].Get(ctx, w.Workload)
	if apierrors.IsNotFound(err) {
		return truth{nobody: true}, nil, nil
	}
	if err != nil {
		return truth{}, nil, err
	}
	at := []string{"spec", "template"}
	t := truth{desired: number(object, "spec", "replicas"), going: object.GetDeletionTimestamp() != nil}
	if w.Kind == "CloneSet" {
		t.held = number(object, "spec", "updateStrategy", "rollingUpdate", "partition")
		t.paused, _, _ = unstructured.NestedBool(object.Object, "spec", "updateStrategy", "rollingUpdate", "paused")
	} else {
		at = append(at, "cloneSetTemplate", "spec", "template")
		t.held = number(object, "spec", "updateStrategy", "manualUpdate", "partitions", "all")
		if t.paused, err = pausedByHub(object); err != nil {
			return truth{}, nil, err
		}
	}
	template, _, err := unstructured.NestedMap(object.Object, at...)
	if err != nil {
		return truth{}, nil, err
	}
	label, _, _ := unstructured.NestedString(template, "metadata", "labels", stuck)
	containers, _, _ := unstructured.NestedSlice(template, "spec", "containers")
	pods := &corev1.PodList{}
	if err := s.h.Members[member].Client.List(ctx, pods, client.InNamespace(ns),
		client.MatchingLabels{"app": w.Name}); err != nil {
		return truth{}, nil, err
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		if p.DeletionTimestamp != nil {
			continue
		}
		t.pods++
		if p.Labels[stuck] == label && p.Spec.Containers[0].Image == containers[0].(map[string]any)["image"] {
			t.updated++
		}
		if slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady &&
				c.Status == corev1.ConditionTrue
		}) {
			t.ready++
		}
	}
	return t, object, nil
}

// pausedByHub tells whether the hub lends a member's UnitedDeployment nothing: then it waits, as one that is paused. It
// is told in an annotation.
func pausedByHub(object *unstructured.Unstructured) (bool, error) {
	text := object.GetAnnotations()[topology.AnnotationSubsetLimits]
	if text == "" {
		return false, nil
	}
	limits := map[string]topology.SubsetLimit{}
	if err := json.Unmarshal([]byte(text), &limits); err != nil {
		return false, fmt.Errorf("read the limits of %s: %w", object.GetName(), err)
	}
	all := limits["all"]
	return all.Paused || all.MaxUnavailable == 0 && all.MaxSurge == 0, nil
}
