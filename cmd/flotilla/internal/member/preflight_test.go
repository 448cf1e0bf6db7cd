package member

import (
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/console"
)

func TestObstacles(t *testing.T) {
	member := func(name, pinned, told string) topology.MemberCluster {
		m := topology.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
		m.Spec.ClusterID, m.Status.ClusterID = pinned, told
		return m
	}
	for _, tc := range []struct {
		name   string
		change func(*surroundings)
		says   []string
	}{
		{"nothing is in the way", func(*surroundings) {}, nil},
		{"other members are not", func(s *surroundings) { s.members = []topology.MemberCluster{member("west", "id-west", "id-west")} }, nil},
		{"nor is the name, reserved by a token", func(s *surroundings) { s.members = []topology.MemberCluster{member("east", "", "")} }, nil},
		{"nor is the member itself", func(s *surroundings) { s.members = []topology.MemberCluster{member("east", "id-east", "id-east")} }, nil},
		{"the hub is too old", func(s *surroundings) { s.hubVersion = "v1.29.4" }, []string{"the hub runs Kubernetes v1.29.4", "1.30 or newer"}},
		{"the cluster is too old", func(s *surroundings) { s.memberVersion = "v1.27.0+k3s1" }, []string{"the cluster that joins runs Kubernetes v1.27.0+k3s1"}},
		{"it is the hub", func(s *surroundings) { s.memberID = s.hubID }, []string{"the hub cannot be its own member", "id-hub"}},
		{"the hub has no CRDs", func(s *surroundings) { s.noCRDs = true }, []string{"install Flotilla there"}},
		{"the name is taken", func(s *surroundings) { s.members = []topology.MemberCluster{member("east", "id-other", "")} }, []string{"the name east is taken by the cluster id-other", "flotilla leave east"}},
		{"the name is taken, not accepted yet", func(s *surroundings) { s.members = []topology.MemberCluster{member("east", "", "id-other")} }, []string{"the name east is taken"}},
		{"the cluster has another name", func(s *surroundings) { s.members = []topology.MemberCluster{member("osten", "id-east", "")} }, []string{"is the member osten already"}},
		{"the name goes", func(s *surroundings) {
			m := member("east", "id-east", "")
			m.DeletionTimestamp = new(metav1.Now())
			s.members = []topology.MemberCluster{m}
		}, []string{"is being deleted: wait"}},
		{"rights lack", func(s *surroundings) { s.forbidden = []string{"you may not create secrets"} }, []string{"you may not create secrets"}},
		{"all at once are told", func(s *surroundings) { s.memberID, s.noCRDs, s.hubVersion = s.hubID, true, "none" }, []string{"own member", "install Flotilla", "Kubernetes none"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := &surroundings{name: "east", hubVersion: "v1.36.3", memberVersion: "v1.30.0", hubID: "id-hub", memberID: "id-east"}
			tc.change(s)
			got := strings.Join(s.obstacles(), "\n")
			if (got == "") != (tc.says == nil) {
				t.Fatalf("it says %q", got)
			}
			for _, want := range tc.says {
				if !strings.Contains(got, want) {
					t.Errorf("%q does not say %q", got, want)
				}
			}
		})
	}
}

func TestNames(t *testing.T) {
	for name, ok := range map[string]bool{"east": true, "e-1": true, "": false, "East": false, "-e": false, "a.b": false, strings.Repeat("x", 52): true, strings.Repeat("x", 53): false} {
		if err := checkName(name); (err == nil) != ok || err != nil && !errors.Is(err, console.ErrUsage) {
			t.Errorf("the name %q: %v", name, err)
		}
	}
}
