//go:build e2e

package capi

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
)

// TestClusterAPI follows two clusters of Cluster API from the label to their end: one is deleted, and drained first;
// the machines of the other vanish. A third one, which a person joined, takes their workloads.
func TestClusterAPI(t *testing.T) {
	w := newWorld(t)
	w.refused()
	w.addCluster("east", map[string]string{"team": "payments", "topology.kubernetes.io/region": "eu"}, "a", "b")
	w.badKubeconfig()
	w.joins("east", "eu", "a", "b")
	w.addCluster("south", map[string]string{})
	w.secret("south", w.admin("south", "capi"))
	w.joins("south", "", "")
	w.apply()
	w.expectPods(map[string]int{"east": 2, "south": 2, "west": 2})
	w.rotated()
	w.machineReplaced()
	w.fenced()
	w.deleted()
	w.expectGranted()
}

// TestLeaveAndReturn follows a cluster that loses its label, and gets it again.
func TestLeaveAndReturn(t *testing.T) {
	w := newWorld(t)
	w.addCluster("south", map[string]string{})
	w.secret("south", w.admin("south", "capi"))
	w.joins("south", "", "")
	w.leavesAndReturns()
	w.expectGranted()
}

// refused: a name that somebody else's member has, and one that no member can have.
func (w *world) refused() {
	w.t.Helper()
	for name, as := range map[string]string{"taken": "west", "wrong": "Not_A_Name"} {
		w.create(w.hub, &clusterv1.Cluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: site, Name: name, Labels: map[string]string{topology.LabelJoin: "true"},
				Annotations: map[string]string{topology.AnnotationMemberName: as}},
			Spec: clusterv1.ClusterSpec{ControlPlaneEndpoint: clusterv1.APIEndpoint{Host: "127.0.0.1", Port: 6443}},
		})
	}
	w.expectTold("taken", "False NameTaken", "the member west was made by somebody else", topology.AnnotationMemberName,
		"flotilla leave west")
	w.expectTold("wrong", "False NameInvalid", `"Not_A_Name"`, topology.AnnotationMemberName)
	for _, name := range []string{"taken", "wrong"} {
		if c := w.cluster(name); len(c.Finalizers) > 0 {
			w.t.Errorf("Cluster %s did not join, and has the finalizers %v", name, c.Finalizers)
		}
		if err := w.hub.Delete(w.t.Context(), w.cluster(name)); err != nil {
			w.t.Fatal(err)
		}
	}
	if west, err := w.member(w.t.Context(), "west"); err != nil || west.Annotations[topology.AnnotationClusterAPI] != "" {
		w.t.Errorf("the member that a person made is now %v, %v", west, err)
	}
}

// badKubeconfig: each kind of trouble is told with its cause, and nothing is made on the hub.
func (w *world) badKubeconfig() {
	w.t.Helper()
	w.expectTold("east", "False KubeconfigMissing", "no Secret site/east-kubeconfig")
	w.secret("east", []byte("{"))
	w.expectTold("east", "False KubeconfigInvalid", "Secret site/east-kubeconfig", "it is no kubeconfig")
	w.secret("east", w.kubeconfig("east",
		&clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{APIVersion: "client.authentication.k8s.io/v1",
			Command: "/bin/sh", InteractiveMode: clientcmdapi.NeverExecInteractiveMode}}))
	w.expectTold("east", "False KubeconfigInvalid", `the program "/bin/sh", which is not run here`)
	w.secret("east", w.kubeconfig("east", &clientcmdapi.AuthInfo{Token: "old"}))
	w.expectTold("east", "False ClusterUnreachable", "Secret site/east-kubeconfig", "provide credentials")
	if _, err := w.member(w.t.Context(), "east"); !apierrors.IsNotFound(err) {
		w.t.Errorf("there is a MemberCluster of a cluster that does not answer: %v", err)
	}
	w.secret("east", w.admin("east", "capi"))
}

// joins: the cluster is a member with the zones, pinned and Ready; its Machines have the hook.
func (w *world) joins(cluster, region string, zones ...string) {
	w.t.Helper()
	w.kubelet(cluster)
	w.expectTold(cluster, "True MemberJoined", "the member "+cluster)
	system := &corev1.Namespace{}
	if err := w.at[cluster].Get(w.t.Context(), client.ObjectKey{Name: "kube-system"}, system); err != nil {
		w.t.Fatal(err)
	}
	w.eventually("the zones of "+cluster, func(ctx context.Context) string {
		m, err := w.member(ctx, cluster)
		if err != nil {
			return err.Error()
		}
		have := map[string]bool{}
		for _, zone := range m.Status.Zones {
			have[zone.Name] = true
		}
		if now := slices.Sorted(maps.Keys(have)); !slices.Equal(now, zones) {
			return fmt.Sprintf("they are %q, want %q", now, zones)
		}
		return ""
	})
	m, err := w.member(w.t.Context(), cluster)
	if err != nil {
		w.t.Fatal(err)
	}
	if !m.Spec.Accepted || m.Spec.ClusterID != string(system.UID) ||
		!strings.HasPrefix(m.Spec.KeyFingerprint, "sha256:") || m.Spec.Region != region {
		w.t.Errorf("the member is %+v, want it accepted with the id %s and the region %q", m.Spec, system.UID, region)
	}
	if m.Labels["team"] != w.cluster(cluster).Labels["team"] || m.Labels[topology.LabelJoin] != "" {
		w.t.Errorf("the labels of the member are %v", m.Labels)
	}
	w.eventually("the hooks of "+cluster, func(ctx context.Context) string {
		for _, machine := range w.machines(ctx, cluster) {
			if machine.Annotations[topology.MachineHook] == "" {
				return "Machine " + machine.Name + " has none"
			}
		}
		return ""
	})
}

// leavesAndReturns: without its label south is no member, and nothing of Flotilla but the definitions is left in it and
// on its Cluster. With the label it joins again.
func (w *world) leavesAndReturns() {
	w.t.Helper()
	w.label("south", nil)
	w.expectTold("south", "False MemberLeft")
	w.eventually("nothing is left of the member south", func(ctx context.Context) string {
		c := w.cluster("south")
		if len(c.Finalizers) > 0 || c.Annotations[topology.AnnotationJoinedAs] != "" {
			return fmt.Sprintf("its Cluster has the finalizers %v and the annotations %v", c.Finalizers, c.Annotations)
		}
		for _, m := range w.machines(ctx, "south") {
			if m.Annotations[topology.MachineHook] != "" {
				return "Machine " + m.Name + " has the hook"
			}
		}
		if _, err := w.member(ctx, "south"); !apierrors.IsNotFound(err) {
			return fmt.Sprintf("its MemberCluster: %v", err)
		}
		for _, object := range []client.Object{&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "flotilla-agent"}},
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: topology.JoinSecret}},
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: topology.CredentialSecret}}} {
			if err := w.at["south"].Get(ctx, client.ObjectKey{Namespace: topology.SystemNamespace, Name: object.GetName()},
				object); !apierrors.IsNotFound(err) {
				return fmt.Sprintf("its %T %s: %v", object, object.GetName(), err)
			}
		}
		return ""
	})
	if err := w.fleet.Kill(w.t.Context(), fleet.AgentName("south")); err != nil { // a kubelet does, without the Deployment
		w.t.Fatal(err)
	}
	w.label("south", new("true"))
	w.joins("south", "", "")
}

// rotated: the kubeconfig is another one, and the former is void. What somebody removed of the agent is made again with
// it. Then it is one that is of no use: that is told, and the member stays Ready.
func (w *world) rotated() {
	w.t.Helper()
	fresh := w.admin("east", "capi-2")
	if err := w.at["east"].Delete(w.t.Context(),
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "capi"}}); err != nil {
		w.t.Fatal(err)
	}
	if err := w.at["east"].Delete(w.t.Context(),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "capi"}}); err != nil {
		w.t.Fatal(err)
	}
	agent := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: topology.SystemNamespace, Name: "flotilla-agent"}}
	if err := w.at["east"].Delete(w.t.Context(), agent); err != nil {
		w.t.Fatal(err)
	}
	// API servers remember a token that was good for some seconds.
	w.eventually("the former kubeconfig is void", func(context.Context) string {
		w.nudge("east")
		if told := w.told("east"); !strings.Contains(told, "ClusterUnreachable") {
			return told
		}
		return ""
	})
	w.secret("east", fresh)
	w.expectTold("east", "True MemberJoined")
	if err := w.at["east"].Get(w.t.Context(), client.ObjectKeyFromObject(agent), agent); err != nil {
		w.t.Error(err)
	}
	w.secret("east", []byte("{"))
	w.expectTold("east", "False KubeconfigInvalid")
	if east, err := w.member(w.t.Context(), "east"); err != nil ||
		!meta.IsStatusConditionTrue(east.Status.Conditions, topology.MemberReady) {
		w.t.Errorf("the member whose kubeconfig is of no use is %+v, %v", east.Status.Conditions, err)
	}
	w.secret("east", fresh)
	w.expectTold("east", "True MemberJoined")
}

// machineReplaced: a Machine that is deleted while its Cluster stays is let go at once.
func (w *world) machineReplaced() {
	w.t.Helper()
	gone := w.machines(w.t.Context(), "east")[0]
	if err := w.hub.Delete(w.t.Context(), &gone); err != nil {
		w.t.Fatal(err)
	}
	w.eventually("Machine "+gone.Name+" is let go", func(ctx context.Context) string {
		for _, m := range w.machines(ctx, "east") {
			if m.Name == gone.Name {
				return fmt.Sprintf("it has the annotations %v", m.Annotations)
			}
		}
		return ""
	})
}

// fenced: the machines of south go, and it is not heard of any more: its pods are made elsewhere, though its policy
// waits for an hour. As long as it has a MachinePool its machines are not gone.
func (w *world) fenced() {
	w.t.Helper()
	pool := w.addPool("south", "south-0")
	if err := w.fleet.Kill(w.t.Context(), fleet.AgentName("south")); err != nil {
		w.t.Fatal(err)
	}
	for _, m := range w.machines(w.t.Context(), "south") {
		if err := w.hub.Delete(w.t.Context(), &m); err != nil {
			w.t.Fatal(err)
		}
	}
	w.eventually("the machines of south are gone", func(ctx context.Context) string {
		if left := w.machines(ctx, "south"); len(left) > 0 {
			return fmt.Sprintf("it has %d machines", len(left))
		}
		return ""
	})
	w.expectTold("south", "False AgentStarting") // it was looked at since it is not heard of
	if m, err := w.member(w.t.Context(), "south"); err != nil || m.Spec.Fence != nil {
		w.t.Errorf("it has a MachinePool, and its fence is %+v, %v", m.Spec.Fence, err)
	}
	if err := w.hub.Delete(w.t.Context(), pool); err != nil {
		w.t.Fatal(err)
	}
	w.nudge("south") // it is looked at within a minute, and the test is in a hurry
	w.eventually("the member south is fenced", func(ctx context.Context) string {
		m, err := w.member(ctx, "south")
		if err != nil {
			return err.Error()
		}
		if m.Spec.Fence == nil || m.Spec.Fence.By != program {
			return fmt.Sprintf("its fence is %v", m.Spec.Fence)
		}
		return ""
	})
	w.expectPods(map[string]int{"east": 3, "west": 3})
}

// deleted: as long as east has pods of the workload, its Machines have the hook, and its Cluster stays; then all of it
// goes. Meanwhile no more pods are missing than the workload's limit allows.
func (w *world) deleted() {
	w.t.Helper()
	if err := w.hub.Delete(w.t.Context(), w.cluster("east")); err != nil {
		w.t.Fatal(err)
	}
	for _, m := range w.machines(w.t.Context(), "east") { // Cluster API does so at once
		if err := w.hub.Delete(w.t.Context(), &m); err != nil {
			w.t.Fatal(err)
		}
	}
	w.eventually("Cluster east is gone", func(ctx context.Context) string {
		if n, answer := w.serving(ctx, "east", "west"); answer && n < replicas-maxUnavailable {
			w.t.Fatalf("%d pods serve while east is drained, and the limit wants %d", n, replicas-maxUnavailable)
		}
		pods := w.pods(ctx, "east") // before the machines: pods go first
		if left := w.machines(ctx, "east"); len(left) == 0 && pods > 0 {
			w.t.Fatalf("the machines of east went, and %d pods were there", pods)
		}
		c := &clusterv1.Cluster{}
		err := w.hub.Get(ctx, client.ObjectKey{Namespace: site, Name: "east"}, c)
		if apierrors.IsNotFound(err) {
			return ""
		}
		if err != nil {
			return err.Error()
		}
		condition := meta.FindStatusCondition(c.Status.Conditions, topology.ClusterJoined)
		return fmt.Sprintf("it has %d pods, and says %+v", pods, condition)
	})
	w.expectPods(map[string]int{"east": 0, "west": replicas})
	for what, get := range map[string]func() error{
		"MemberCluster": func() error { _, err := w.member(w.t.Context(), "east"); return err },
		"Lease": func() error {
			return w.hub.Get(w.t.Context(), client.ObjectKey{Namespace: "karmada-es-east", Name: "east"},
				&metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"}})
		},
	} {
		w.eventually("the "+what+" of a member that left is gone", func(context.Context) string {
			if err := get(); !apierrors.IsNotFound(err) {
				return fmt.Sprintf("there is an answer, %v", err)
			}
			return ""
		})
	}
	w.eventually("the machines of east are gone", func(ctx context.Context) string {
		if n := len(w.machines(ctx, "east")); n > 0 {
			return fmt.Sprintf("%d are left", n)
		}
		return ""
	})
}

// expectGranted holds that the hub refused the program nothing as the user that it is.
func (w *world) expectGranted() {
	w.t.Helper()
	for line := range strings.Lines(w.fleet.LogTail(program, 100_000)) {
		if strings.Contains(line, "forbidden") && strings.Contains(line, `User "`+program+`"`) {
			w.t.Errorf("it may not do what it wants to: %s", line)
		}
	}
}
