//go:build e2e

package kind

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// identities holds that a StatefulSet over members gives each pod a name of its own, and that an update in place keeps
// each pod, its address and its claim.
func (s *site) identities() {
	for _, member := range []string{"east", "west"} {
		s.run("kubectl --context " + member + " apply -f e2e/kind/testdata/db-volumes.yaml")
	}
	s.run("kubectl apply -f e2e/kind/testdata/db.yaml")
	before := s.settled("db", map[string]int{"app:1": 4}, "east", "west")
	want := []string{"db-0", "db-1", "db-1000", "db-1001"}
	if names := slices.Sorted(maps.Keys(before)); !slices.Equal(names, want) {
		s.t.Errorf("pods are %v, want %v", names, want)
	}
	claims := s.claims("db")
	if len(claims) != len(want) {
		s.t.Errorf("pods use %d bound claims, want %d: %v", len(claims), len(want), claims)
	}

	s.run(`kubectl --namespace shop patch statefulsets.apps.kruise.io db --type json --patch '[
		{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "app:2"}]'`)
	now := s.settled("db", map[string]int{"app:2": 4}, "east", "west")
	for name, p := range before {
		p.image, p.restarts = "app:2", p.restarts+1
		before[name] = p
	}
	s.expectSame("an update of a StatefulSet in place", before, now)
	s.expectServed(now)
	if now := s.claims("db"); !maps.Equal(now, claims) {
		s.t.Errorf("pods use the claims %v, and used %v", now, claims)
	}
	s.run("kubectl --namespace shop wait statefulsets.apps.kruise.io/db --for=condition=Ready --timeout=2m")
	s.run("kubectl --namespace shop delete statefulsets.apps.kruise.io db")
	s.settled("db", map[string]int{}, "east", "west")
}

// claims returns the UIDs of the bound claims that the pods of an app use, by member and pod.
func (s *site) claims(app string) map[string]types.UID {
	s.t.Helper()
	out := map[string]types.UID{}
	for _, member := range []string{"east", "west"} {
		core := s.clusters[member].core.CoreV1()
		pods, err := core.Pods(shop).List(s.t.Context(), metav1.ListOptions{LabelSelector: "app=" + app})
		if err != nil {
			s.t.Fatal(err)
		}
		for i := range pods.Items {
			for _, v := range pods.Items[i].Spec.Volumes {
				if v.PersistentVolumeClaim == nil {
					continue
				}
				claim, err := core.PersistentVolumeClaims(shop).Get(s.t.Context(),
					v.PersistentVolumeClaim.ClaimName, metav1.GetOptions{})
				if err != nil {
					s.t.Fatal(err)
				}
				if claim.Status.Phase == corev1.ClaimBound {
					out[fmt.Sprintf("%s in %s", pods.Items[i].Name, member)] = claim.UID
				}
			}
		}
	}
	return out
}
