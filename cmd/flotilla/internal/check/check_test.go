package check

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/flotilla-dev/flotilla/apis/crds"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/policy"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func renewed(ago time.Duration) *coordinationv1.Lease {
	at := metav1.NewMicroTime(now.Add(-ago))
	return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: &at, HolderIdentity: new("pod-1")}}
}

func memberOf(name string, ready metav1.ConditionStatus, more ...metav1.Condition) topology.MemberCluster {
	m := topology.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: topology.MemberClusterSpec{Accepted: true}}
	long := metav1.NewTime(now.Add(-time.Hour))
	m.Status.Conditions = append([]metav1.Condition{
		{Type: topology.MemberAccepted, Status: metav1.ConditionTrue},
		{Type: topology.MemberReady, Status: ready, Reason: "LeaseExpired", Message: name + " has not renewed its Lease",
			LastTransitionTime: long},
	}, more...)
	return m
}

// healthy are the facts of an installation in which nothing is wrong.
func healthy() *facts {
	return &facts{
		now: now, flags: " --context hub", version: "v1.34.1", own: "v1.4.0",
		crds: []definition{{name: "clonesets.apps.kruise.io", served: true}},
		leases: map[string]*coordinationv1.Lease{"flotilla-hub": renewed(time.Second),
			"flotilla-approver": renewed(time.Second)},
		memberLeases: map[string]*coordinationv1.Lease{"east": renewed(9 * time.Second)},
		members:      []topology.MemberCluster{memberOf("east", metav1.ConditionTrue)},
		federated:    1,
		policies: map[string][]metav1.Condition{"FederationPolicy shop/all": {{Type: "Ready",
			Status: metav1.ConditionTrue, Message: policy.Holds}}},
		workloads: []workload{{key: wire.Key{Group: "apps.kruise.io", Kind: "CloneSet", Namespace: "shop", Name: "api"},
			federated: true, answered: true, created: now.Add(-time.Hour), replicas: 9,
			conditions: []metav1.Condition{{Type: "Federated", Status: metav1.ConditionTrue, Reason: "Placed"}}}},
		unread: map[string]error{},
	}
}

// found returns the findings, as "outcome name: found → hint".
func found(results []Result) []string {
	var lines []string
	for _, r := range results {
		if r.Found == "" {
			lines = append(lines, r.Name+" says nothing")
		}
		if r.Outcome != passed {
			lines = append(lines, r.Outcome+" "+r.Name+": "+r.Found)
			if r.Hint == "" {
				lines = append(lines, "no hint")
			}
		}
	}
	return lines
}

func TestRunning(t *testing.T) {
	for _, tc := range []struct {
		reason string
		change func(*facts)
		want   []string
	}{
		{"a healthy installation", func(*facts) {}, nil},
		{"Kubernetes is too old", func(f *facts) { f.version = "v1.29.3" },
			[]string{"error API server: it is v1.29.3, older than 1.30"}},
		{"a definition is missing", func(f *facts) { f.crds[0].served = false },
			[]string{"error CustomResourceDefinitions: not served: clonesets.apps.kruise.io"}},
		{"a definition is older", func(f *facts) { f.crds[0].lacks = "v1beta1.spec.paused" },
			[]string{"warning CustomResourceDefinitions: clonesets.apps.kruise.io has no field v1beta1.spec.paused"}},
		{"no program converts", func(f *facts) { f.conversion = "conversion webhook failed" },
			[]string{"warning conversion of v1alpha1: conversion webhook failed"}},
		{"conversion cannot be asked", func(f *facts) { f.unread["conversion"] = errors.New("forbidden") },
			[]string{"skipped conversion of v1alpha1: forbidden"}},
		{"the hub is down", func(f *facts) { f.leases["flotilla-hub"] = renewed(time.Hour) },
			[]string{"error flotilla-hub: it does not run: its Lease was not renewed for 1h0m0s"}},
		{"the hub was stopped", func(f *facts) { f.leases["flotilla-hub"].Spec.HolderIdentity = new("") },
			[]string{"error flotilla-hub: it does not run: no replica holds its Lease"}},
		{"the hub never ran", func(f *facts) {
			delete(f.leases, "flotilla-hub")
			f.members = nil
		}, []string{"error flotilla-hub: it has no Lease, and has judged nothing here: it does not run",
			"warning members: the hub has none"}},
		{"the hub has no Lease", func(f *facts) { delete(f.leases, "flotilla-hub") },
			[]string{"warning flotilla-hub: it has no Lease, so whether it runs is not known"}},
		{"Leases cannot be read", func(f *facts) { f.unread["leases"] = errors.New("forbidden") },
			[]string{"skipped flotilla-hub: forbidden", "skipped flotilla-approver: forbidden"}},
		{"there is no approver", func(f *facts) { delete(f.leases, "flotilla-approver") }, nil},
		{"the approver was removed", func(f *facts) { f.leases["flotilla-approver"].Spec.HolderIdentity = new("") },
			[]string{"warning flotilla-approver: it does not run: no replica holds its Lease"}},
		{"the approver ended without giving its Lease back", func(f *facts) {
			f.leases["flotilla-approver"] = renewed(time.Hour)
		}, []string{"warning flotilla-approver: it does not run: its Lease was not renewed for 1h0m0s"}},
		{"an installed approver is down", func(f *facts) {
			f.leases["flotilla-approver"] = renewed(time.Hour)
			f.deployments = []appsv1.Deployment{{ObjectMeta: metav1.ObjectMeta{Name: "flotilla-approver"},
				Status: appsv1.DeploymentStatus{AvailableReplicas: 1}}}
		}, []string{"error flotilla-approver: it does not run: its Lease was not renewed for 1h0m0s"}},
		{"one pod of two is available", func(f *facts) {
			f.deployments = []appsv1.Deployment{{ObjectMeta: metav1.ObjectMeta{Name: "flotilla-hub"},
				Spec: appsv1.DeploymentSpec{Replicas: new(int32(2))}, Status: appsv1.DeploymentStatus{AvailableReplicas: 1}}}
		}, []string{"warning Deployment flotilla-hub: 1 of 2 replicas are available"}},
		{"the hub is scaled to zero", func(f *facts) {
			f.deployments = []appsv1.Deployment{{ObjectMeta: metav1.ObjectMeta{Name: "flotilla-hub"},
				Spec: appsv1.DeploymentSpec{Replicas: new(int32(0))}}}
		}, []string{"error Deployment flotilla-hub: 0 of 0 replicas are available"}},
		{"there are no members", func(f *facts) { f.members = nil }, []string{"warning members: the hub has none"}},
		{"a member asks", func(f *facts) {
			f.members[0].Spec.Accepted = false
			f.asking = map[string]bool{"east": true}
		}, []string{"warning member east: its agent asks to join"}},
		{"a member is not accepted, and requests cannot be read", func(f *facts) {
			f.members[0].Spec.Accepted = false
			f.unread["requests"] = errors.New("forbidden")
		}, []string{"warning member east: it is not accepted; whether its agent has asked cannot be read: forbidden"}},
		{"Deployments cannot be read", func(f *facts) { f.unread["deployments"] = errors.New("forbidden") },
			[]string{"skipped Deployments of the programs: forbidden"}},
		{"a member is unreachable", func(f *facts) {
			f.members[0], f.memberLeases["east"] = memberOf("east", metav1.ConditionFalse), renewed(time.Hour)
		}, []string{"error member east: east has not renewed its Lease"}},
		{"the hub does not see a member", func(f *facts) { f.members[0] = memberOf("east", metav1.ConditionFalse) },
			[]string{"error member east: it is not Ready, and its agent renews its Lease"}},
		{"the hub does not see that a member is unreachable", func(f *facts) { f.memberLeases["east"] = renewed(time.Hour) },
			[]string{"error member east: the hub takes it for Ready, and its agent has not renewed its Lease for 1h0m0s"}},
		{"an agent has no Lease", func(f *facts) { delete(f.memberLeases, "east") },
			[]string{"error member east: the hub takes it for Ready, and its agent has no Lease"}},
		{"the hub has not judged a member", func(f *facts) { f.members[0].Status.Conditions = nil },
			[]string{"error member east: the hub has not judged it"}},
		{"orphans", func(f *facts) {
			f.members[0] = memberOf("east", metav1.ConditionTrue,
				metav1.Condition{Type: topology.MemberOrphans, Status: metav1.ConditionTrue, Message: "2 objects"})
		}, []string{"warning member east: Orphans: 2 objects"}},
		{"a clock is wrong", func(f *facts) {
			f.members[0] = memberOf("east", metav1.ConditionTrue,
				metav1.Condition{Type: topology.MemberClockInSync, Status: metav1.ConditionFalse, Message: "7m0s behind"})
			f.memberLeases["east"] = renewed(7 * time.Minute)
		}, []string{"warning member east: ClockInSync: 7m0s behind"}},
		{"an old agent", func(f *facts) { f.members[0].Status.AgentVersion = "v1.2.9" },
			[]string{"warning member east: its agent is v1.2.9, and this program v1.4.0"}},
		{"an agent of the last version", func(f *facts) { f.members[0].Status.AgentVersion = "v1.3.9" }, nil},
		{"an agent of no release", func(f *facts) { f.members[0].Status.AgentVersion = "v0.0.0-gabc" }, nil},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			f := healthy()
			tc.change(f)
			if diff := cmp.Diff(tc.want, found(running(f))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestLeaseOfARemovedApprover holds the command that ends the warning.
func TestLeaseOfARemovedApprover(t *testing.T) {
	f := healthy()
	f.leases["flotilla-approver"] = renewed(time.Hour)
	want := "if it was removed, delete its Lease: kubectl -n flotilla-system delete lease flotilla-approver " +
		"--context hub; else start it"
	if got := f.approver().Hint; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestInstalling(t *testing.T) {
	f := healthy()
	f.crds[0].served = false // it is about to be installed
	if got := found(installing(f)); got != nil {
		t.Errorf("found %v", got)
	}
	f.kruise, f.forbidden = true, []string{"create namespaces"}
	f.crds[0].lacks = "v1beta1.spec.paused"
	want := []string{"error your rights: you may not create namespaces",
		"warning OpenKruise: its webhooks are installed, and two programs would act on the same objects",
		"warning definitions of an earlier installation: clonesets.apps.kruise.io has no field v1beta1.spec.paused"}
	if diff := cmp.Diff(want, found(installing(f))); diff != "" {
		t.Error(diff)
	}
	f = healthy()
	f.unread["kruise"] = errors.New("forbidden")
	if diff := cmp.Diff([]string{"skipped OpenKruise: forbidden"}, found(installing(f))); diff != "" {
		t.Error(diff)
	}
}

func TestLacking(t *testing.T) {
	all, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, crd := range all {
		if got := lacking(crd, crd.DeepCopy()); got != "" {
			t.Errorf("%s lacks %s of itself", crd.GetName(), got)
		}
	}
	cloneSets := all[slices.IndexFunc(all, func(crd *unstructured.Unstructured) bool {
		return crd.GetName() == "clonesets.apps.kruise.io"
	})]
	old := cloneSets.DeepCopy()
	versions, _, _ := unstructured.NestedSlice(old.Object, "spec", "versions")
	first := versions[0].(map[string]any)
	unstructured.RemoveNestedField(first, "schema", "openAPIV3Schema", "properties", "spec", "properties",
		"minReadySeconds")
	if err := unstructured.SetNestedSlice(old.Object, versions, "spec", "versions"); err != nil {
		t.Fatal(err)
	}
	if got, want := lacking(cloneSets, old), first["name"].(string)+".spec.minReadySeconds"; got != want {
		t.Errorf("it lacks %q, want %q", got, want)
	}
	_ = unstructured.SetNestedSlice(old.Object, versions[:1], "spec", "versions")
	if got := lacking(cloneSets, old); got == "" {
		t.Error("a version is missing, and that is not said")
	}
}

func TestWrite(t *testing.T) {
	var text strings.Builder
	err := write(&text, []Result{
		{Category: "kubernetes", Name: "API server", Outcome: passed, Found: "v1.34.1"},
		{Category: "members", Name: "member east", Outcome: failed, Found: "it is lost", Hint: "look"},
		{Category: "members", Name: "member west", Outcome: warned},
	})
	want := "kubernetes\n+ API server: v1.34.1\n\nmembers\nx member east: it is lost\n    look\n! member west\n\n" +
		"1 error, 1 warning; nothing is wrong with 1, and 0 could not be read\n"
	if diff := cmp.Diff(want, text.String()); diff != "" || err != nil {
		t.Error(err, diff)
	}
}
