//go:build e2e

package upgrade

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/e2e/harness"
	"github.com/flotilla-dev/flotilla/e2e/judge"
)

const (
	// folder names the folder that build.sh made: programs, and definitions in a folder of that name.
	folder = "FLOTILLA_EARLIER"

	shop = "shop"
	// Of nine pods of the CloneSet api two may be unavailable at once.
	replicas, unavailable = 9, 2
	oldImage, newImage    = "httpd:2.4.62", "httpd:2.4.63"
)

// manifest is a workload of each kind that the earlier version has, and a WorkloadSpread that divides one of them.
const manifest = `
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {topology.flotilla.dev/federated: "true"}}
---
apiVersion: topology.flotilla.dev/v1alpha1
kind: FederationPolicy
metadata: {name: everywhere, namespace: shop}
spec:
  workloads: [{kind: CloneSet}, {kind: UnitedDeployment}]
  spread: {by: Cluster, type: Even}
---
apiVersion: apps.kruise.io/v1beta1
kind: CloneSet
metadata: {name: api, namespace: shop}
spec:
  replicas: 9
  selector: {matchLabels: {app: api}}
  template:
    metadata: {labels: {app: api}}
    spec: {containers: [{name: api, image: "httpd:2.4.62", resources: {requests: {cpu: 100m}}}]}
  updateStrategy:
    rollingUpdate: {podUpdatePolicy: InPlaceIfPossible, maxUnavailable: 2, partition: 0}
---
apiVersion: apps.kruise.io/v1beta1
kind: UnitedDeployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 6
  selector: {matchLabels: {app: web}}
  template:
    cloneSetTemplate:
      metadata: {labels: {app: web}}
      spec:
        template:
          metadata: {labels: {app: web}}
          spec: {containers: [{name: web, image: "nginx:1.27"}]}
  topology:
    subsets:
    - name: zone-a
      replicas: 2
      nodeSelectorTerm: {matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [a]}]}
    - name: zone-b
      nodeSelectorTerm: {matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [b]}]}
---
apiVersion: apps.kruise.io/v1beta1
kind: WorkloadSpread
metadata: {name: spread, namespace: shop}
spec:
  targetRef: {apiVersion: apps.kruise.io/v1beta1, kind: CloneSet, name: spread}
  subsets:
  - name: first
    maxReplicas: 1
    requiredNodeSelector: {matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [a]}]}
  - name: second
---
apiVersion: apps.kruise.io/v1beta1
kind: CloneSet
metadata: {name: spread, namespace: shop}
spec:
  replicas: 3
  selector: {matchLabels: {app: spread}}
  template:
    metadata: {labels: {app: spread}}
    spec: {containers: [{name: spread, image: "busybox:1"}]}
`

// site is a fleet in the middle of an upgrade.
type site struct {
	*testing.T
	*harness.Harness
	// started is the moment before the rollout, rested that since which no pod may change.
	started, rested harness.Mark
	// named are the placements and Works of the earlier version, with their uids.
	named map[string]types.UID
}

// TestUpgrade holds, for the documented order and for the reverse one, that an upgrade in the middle of a rollout
// changes no pod, that the rollout goes on between two steps of the upgrade and after them, and that its limits hold
// over all members all the time.
func TestUpgrade(t *testing.T) {
	log.SetLogger(logr.Discard())
	for name, hubFirst := range map[string]bool{"agents first": false, "hub first": true} {
		t.Run(name, func(t *testing.T) {
			gomega.RegisterTestingT(t)
			s := newSite(t)
			definitions := func() {
				s.step("definitions", func(ctx context.Context) error {
					for _, cluster := range append([]*harness.Cluster{s.Hub}, s.members()...) {
						if err := s.UpgradeDefinitions(ctx, cluster); err != nil {
							return err
						}
					}
					return nil
				})
			}
			hub := func() { s.step("the hub", s.UpgradeHub) }
			agent := func(member string) {
				s.step("the agent of "+member, func(ctx context.Context) error { return s.UpgradeAgent(ctx, member) })
			}
			definitions()
			if hubFirst {
				hub()
			}
			agent("east")
			s.partition(3)
			agent("west")
			if !hubFirst {
				s.partition(2)
				hub()
			}
			s.partition(0)
			s.kept()
		})
	}
}

// newSite starts the earlier version, with its workloads and a rollout that a partition holds.
func newSite(t *testing.T) *site {
	t.Helper()
	earlier := os.Getenv(folder)
	if earlier == "" {
		t.Fatalf("%s does not name a folder: run make upgrade-test", folder)
	}
	h, err := harness.Start(t.Context(), harness.Options{
		Members: []fleet.ClusterSpec{
			{Name: "east", Nodes: fleet.Nodes("east", "eu", []string{"a", "b"}, 1)},
			{Name: "west", Nodes: fleet.Nodes("west", "eu", []string{"b", "c"}, 1)},
		},
		Earlier: &harness.Earlier{Definitions: os.DirFS(filepath.Join(earlier, "definitions")), Programs: earlier},
	})
	if err != nil {
		t.Fatal(err)
	}
	s := &site{T: t, Harness: h}
	t.Cleanup(func() {
		if t.Failed() {
			// The test's own context has ended.
			t.Log(h.Describe(context.WithoutCancel(t.Context()), shop))
		}
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	h.Hub.Apply(t.Context(), manifest)
	s.settles()
	s.started = h.Pods.Mark(t.Context(), shop)
	h.Kubectl(t.Context(), "-n", shop, "patch", "clone/api", "--type=json", "-p", fmt.Sprintf(`[
		{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": %q},
		{"op": "replace", "path": "/spec/updateStrategy/rollingUpdate/partition", "value": 5}]`, newImage))
	s.updated(4)
	s.named = s.objects()
	return s
}

func (s *site) members() []*harness.Cluster {
	var all []*harness.Cluster
	for _, name := range s.MemberNames() {
		all = append(all, s.Members[name])
	}
	return all
}

// step does a part of the upgrade. No pod changes by it, also not in the seconds after it.
func (s *site) step(what string, do func(context.Context) error) {
	s.Helper()
	began := time.Now()
	s.rested = s.Pods.Mark(s.Context(), shop)
	if err := do(s.Context()); err != nil {
		s.Fatalf("upgrade %s: %v", what, err)
	}
	s.settles()
	// What a program does on its own account it does once it has read everything.
	const quiet = 2 * time.Second
	gomega.Consistently(s.Context(), func() error {
		history := s.Pods.Since(s.Context(), s.rested)
		if n := len(history.Created()) + len(history.Gone()) + len(history.Restarted()); n > 0 {
			return fmt.Errorf("created %v, gone %v, restarted %v", history.Created(), history.Gone(), history.Restarted())
		}
		return nil
	}).WithTimeout(quiet).Should(gomega.Succeed(), what)
	s.Logf("upgraded %s in %.1f s", what, time.Since(began).Seconds())
}

// settles waits until the status of every workload on the hub is what its pods are.
func (s *site) settles() {
	s.Helper()
	s.ExpectAtRest(s.Context(), harness.CloneSet(shop, "api"), replicas)
	s.ExpectAtRest(s.Context(), harness.UnitedDeployment(shop, "web"), 6)
	s.ExpectAtRest(s.Context(), harness.CloneSet(shop, "spread"), 3)
}

// partition lets the rollout go on to a partition, while the programs are of two versions.
func (s *site) partition(n int) {
	s.Helper()
	s.Kubectl(s.Context(), "-n", shop, "patch", "clone/api", "--type=merge", "-p",
		fmt.Sprintf(`{"spec":{"updateStrategy":{"rollingUpdate":{"partition":%d}}}}`, n))
	s.updated(replicas - n)
}

// updated waits until so many pods of the CloneSet run the new image, and holds that it was never more, that no more
// than may be were unavailable, and that each pod was updated in place.
func (s *site) updated(n int) {
	s.Helper()
	api := harness.CloneSet(shop, "api")
	s.ExpectPods(s.Context(), api, func(p judge.PodView) string { return p.Image },
		map[string]int{newImage: n, oldImage: replicas - n})
	s.settles()
	history := s.Pods.Since(s.Context(), s.started)
	for what, limit := range map[string]struct {
		count func(map[types.UID]judge.PodView) int
		most  int
	}{
		"updated pods":     {of("api", judge.WithImage(newImage)), n},
		"unavailable pods": {of("api", judge.Unavailable(replicas)), unavailable},
		"pods":             {judge.Existing, replicas + 6 + 3},
	} {
		if have, when := history.Most(limit.count); have > limit.most {
			s.Errorf("%d %s, at most %d may be: %s", have, what, limit.most, when)
		}
	}
	if created, gone := history.Created(), history.Gone(); len(created)+len(gone) > 0 {
		s.Errorf("pods were created (%v) or deleted (%v)", created, gone)
	}
	if restarted := history.Restarted(); len(restarted) != n {
		s.Errorf("%d pods were restarted, want the %d that were updated: %v", len(restarted), n, restarted)
	}
}

// of counts the pods whose names begin with that of a workload.
func of(name string, count func(map[types.UID]judge.PodView) int) func(map[types.UID]judge.PodView) int {
	return func(pods map[types.UID]judge.PodView) int {
		part := maps.Clone(pods)
		maps.DeleteFunc(part, func(_ types.UID, p judge.PodView) bool { return !strings.HasPrefix(p.Name, name+"-") })
		return count(part)
	}
}

// kept holds that the placements and Works of the earlier version are the same objects after the upgrade.
func (s *site) kept() {
	s.Helper()
	now := s.objects()
	for name, uid := range s.named {
		if now[name] != uid {
			s.Errorf("%s has the uid %q, it had %q", name, now[name], uid)
		}
	}
	if len(now) != len(s.named) {
		s.Errorf("the hub has %v, it had %v", now, s.named)
	}
}

// objects returns the uids of the placements and Works of the hub.
func (s *site) objects() map[string]types.UID {
	s.Helper()
	all := map[string]types.UID{}
	placements, works := &topology.WorkloadPlacementList{}, &work.WorkList{}
	if err := s.Hub.Client.List(s.Context(), placements); err != nil {
		s.Fatal(err)
	}
	if err := s.Hub.Client.List(s.Context(), works); err != nil {
		s.Fatal(err)
	}
	for i := range placements.Items {
		all["WorkloadPlacement "+placements.Items[i].Namespace+"/"+placements.Items[i].Name] = placements.Items[i].UID
	}
	for i := range works.Items {
		all["Work "+works.Items[i].Namespace+"/"+works.Items[i].Name] = works.Items[i].UID
	}
	return all
}
