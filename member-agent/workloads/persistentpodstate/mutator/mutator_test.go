package mutator

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/admission"
)

type listed struct{}

func (listed) Wait(context.Context) error { return nil }
func (listed) Synced() bool               { return true }

// stateOf returns the PersistentPodState of StatefulSet db of this group.
func stateOf(apiVersion string) *v1beta1.PersistentPodState {
	return &v1beta1.PersistentPodState{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"},
		Spec: v1beta1.PersistentPodStateSpec{
			TargetReference: v1beta1.PersistentPodStateTarget{
				APIVersion: apiVersion, Kind: "StatefulSet", Name: "db"},
			RequiredPersistentTopology: &v1beta1.NodeTopologyTerm{Keys: []v1beta1.TopologyKey{"zone"}},
			PreferredPersistentTopology: []v1beta1.PreferredTopologyTerm{
				{Weight: 7, Preference: v1beta1.NodeTopologyTerm{Keys: []v1beta1.TopologyKey{"host", "rack"}}},
				{Weight: 8, Preference: v1beta1.NodeTopologyTerm{Keys: []v1beta1.TopologyKey{"rack"}}},
			},
			PersistentPodAnnotations: []v1beta1.PersistentPodAnnotation{{Key: "ip"}, {Key: "mac"}},
		},
		Status: v1beta1.PersistentPodStateStatus{PodStates: map[string]v1beta1.PodState{"db-0": {
			NodeName: "n1", NodeTopologyLabels: map[string]string{"zone": "a", "host": "n1"},
			Annotations: map[string]string{"ip": "10.0.0.1", "mac": "aa"},
		}}},
	}
}

func podOf(apiVersion, name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: name, Annotations: map[string]string{"mac": "own"},
		OwnerReferences: []metav1.OwnerReference{
			{APIVersion: apiVersion, Kind: "StatefulSet", Name: "db", UID: "u", Controller: new(true)},
		},
	}}
}

func TestRestore(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1beta1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		state     *v1beta1.PersistentPodState
		pod       *corev1.Pod
		federated bool
		want      string // selector, preferred terms, annotations
	}{
		"a native StatefulSet": {
			stateOf("apps/v1"), podOf("apps/v1", "db-0"), false,
			"map[zone:a] 7 host=n1 map[apps.flotilla.dev/persistent-node-labels:zone " +
				"ip:10.0.0.1 kruise.io/injected-persistent-pod-state:db mac:own]",
		},
		"of the other version": {
			stateOf("apps.kruise.io/v1alpha1"), podOf("apps.kruise.io/v1beta1", "db-0"), false,
			"map[zone:a] 7 host=n1 map[apps.flotilla.dev/persistent-node-labels:zone " +
				"ip:10.0.0.1 kruise.io/injected-persistent-pod-state:db mac:own]",
		},
		"of the other group":   {stateOf("apps/v1"), podOf("apps.kruise.io/v1beta1", "db-0"), false, "map[] map[mac:own]"},
		"a pod without record": {stateOf("apps/v1"), podOf("apps/v1", "db-1"), false, "map[] map[mac:own]"},
		"a hub's namespace":    {stateOf("apps/v1"), podOf("apps/v1", "db-0"), true, "map[] map[mac:own]"},
	} {
		t.Run(name, func(t *testing.T) {
			m := &mutator{
				fake.NewClientBuilder().WithScheme(scheme).WithObjects(test.state).Build(), listed{},
				func(context.Context, string) (bool, error) { return test.federated, nil }, logr.Discard(),
			}
			raw, err := json.Marshal(test.pod)
			if err != nil {
				t.Fatal(err)
			}
			request := &admission.Request{AdmissionRequest: &admissionv1.AdmissionRequest{
				Namespace: "shop", Name: test.pod.Name, Object: runtime.RawExtension{Raw: raw},
			}}
			if err := m.mutate(t.Context(), request); err != nil {
				t.Fatal(err)
			}
			pod, err := request.Pod()
			if err != nil {
				t.Fatal(err)
			}
			got := []string{fmt.Sprint(pod.Spec.NodeSelector)}
			if pod.Spec.Affinity != nil {
				for _, term := range pod.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
					for _, e := range term.Preference.MatchExpressions {
						got = append(got, fmt.Sprintf("%d %s=%s", term.Weight, e.Key, strings.Join(e.Values, "")))
					}
				}
			}
			if text := strings.Join(append(got, fmt.Sprint(pod.Annotations)), " "); text != test.want {
				t.Errorf("%s, want %s", text, test.want)
			}
		})
	}
}

func TestScope(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1beta1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	hostile := stateOf("apps/v1")
	hostile.Name, hostile.Spec.TargetReference.Name = "hostile", "x' || true || 'y"
	m := &mutator{
		reader: fake.NewClientBuilder().WithScheme(scheme).WithObjects(hostile).Build(), caches: listed{},
	}
	if scopes, err := m.scope(t.Context()); err != nil || len(scopes) > 0 {
		t.Errorf("a name that is none: %v, %v", scopes, err)
	}
	m.reader = fake.NewClientBuilder().WithScheme(scheme).WithObjects(hostile, stateOf("apps/v1")).Build()
	scopes, err := m.scope(t.Context())
	if err != nil || len(scopes) != 1 {
		t.Fatal(scopes, err)
	}
	const want = "has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists(o, " +
		"has(o.controller) && " +
		"o.controller && (o.apiVersion.startsWith('apps/') && o.kind == 'StatefulSet' && " +
		"request.namespace + '/' + o.name in ['shop/db']))"
	if scopes[0].Condition != want {
		t.Errorf("%s, want %s", scopes[0].Condition, want)
	}
}
