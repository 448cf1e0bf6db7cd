package explain_test

import (
	"fmt"
	"strings"
	"testing"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub"
	"github.com/flotilla-dev/flotilla/hub/explain"
	"github.com/flotilla-dev/flotilla/hub/snapshot"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

const fleet = `
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {topology.flotilla.dev/federated: "true"}}
---
apiVersion: v1
kind: Namespace
metadata: {name: plain}
---
apiVersion: topology.flotilla.dev/v1alpha1
kind: FederationPolicy
metadata: {name: most, namespace: shop}
spec:
  workloads: [{kind: CloneSet}, {kind: UnitedDeployment}]
  clusters: {selector: {matchLabels: {tier: gold}}}
---
` + member + `
metadata: {name: east, labels: {tier: gold}}
spec: {accepted: true}
status: {zones: [{name: a, nodes: 2, ready: 2}]}
---
` + member + `
metadata: {name: west, labels: {tier: gold}}
spec: {accepted: false}
---
` + member + `
metadata: {name: south, labels: {tier: silver}}
spec: {accepted: true}
status: {zones: [{name: a, nodes: 2, ready: 2}]}
---
` + member + `
metadata: {name: north, labels: {tier: gold}}
spec: {accepted: true}
status:
  zones: [{name: b, nodes: 2, ready: 2}]
  conditions:
  - {type: Accepted, status: "True", reason: Accepted, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}
  - {type: Ready, status: "False", reason: LeaseExpired, message: the agent is silent, lastTransitionTime: "2026-01-01T00:00:00Z"}
---
apiVersion: apps.kruise.io/v1beta1
kind: CloneSet
metadata: {name: lone, namespace: plain}
spec: {replicas: 2, selector: {matchLabels: {app: x}}, template: {metadata: {labels: {app: x}}, spec: {containers: [{name: main, image: x}]}}}
---
apiVersion: apps.kruise.io/v1beta1
kind: UnitedDeployment
metadata: {name: web, namespace: shop, uid: u, generation: 3}
spec:
  replicas: 9
  selector: {matchLabels: {app: web}}
  template:
    cloneSetTemplate:
      metadata: {labels: {app: web}}
      spec: {selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: main, image: web}]}}}
  topology:
    subsets:
    - {name: one, nodeSelectorTerm: {matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [a]}]}}
    - {name: two, nodeSelectorTerm: {matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [b]}, {key: arch, operator: In, values: [arm]}]}}
status:
  conditions:
  - {type: Federated, status: "True", reason: Placed, message: placed on 2 clusters}
  - {type: Ready, status: "True", reason: AllAvailable, message: all there}
---
apiVersion: topology.flotilla.dev/v1alpha1
kind: WorkloadPlacement
metadata: {name: uniteddeployment-web, namespace: shop, uid: p}
spec:
  workload: {apiVersion: apps.kruise.io/v1beta1, kind: UnitedDeployment, name: web, uid: u, generation: 2}
  policy: {kind: FederationPolicy, name: most}
  revision: x
  replicas: 8
  placed: 7
  sequence: 1
  revisionSequence: 1
  cells:
  - {subset: one, cluster: east, zone: a, replicas: 4, sequence: 1, reason: {code: Even}, share: {update: 2, break: 1, add: 0}, held: {update: 2, break: 1, add: 0}}
  - {subset: two, cluster: north, zone: b, replicas: 3, sequence: 1, reason: {code: Frozen, params: {assumed: arch}}, share: {update: 2, break: 1, add: 0}, held: {update: 2, break: 1, add: 0}}
  - {subset: two, cluster: gone, zone: b, replicas: 0, sequence: 1, reason: {code: FromTheFuture}, share: {update: 0, break: 0, add: 0}, held: {update: 0, break: 0, add: 0}}
  unplaced:
  - {subset: two, replicas: 1, reason: {code: Frozen}}
`

const member = `apiVersion: topology.flotilla.dev/v1alpha1
kind: MemberCluster`

// facts reads the fleet as it stands for a workload.
func facts(t *testing.T, key wire.Key) (*explain.Facts, error) {
	t.Helper()
	return factsIn(t, fleet, key)
}

func factsIn(t *testing.T, fleet string, key wire.Key) (*explain.Facts, error) {
	t.Helper()
	scheme, err := hub.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	reader, err := snapshot.NewReader(scheme, "")
	if err != nil {
		t.Fatal(err)
	}
	objects, _, err := reader.Read("fleet", []byte(fleet))
	if err != nil {
		t.Fatal(err)
	}
	s := snapshot.New(scheme)
	if err := s.Put(objects...); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Complete(); err != nil {
		t.Fatal(err)
	}
	return explain.Gather(t.Context(), s, "hub", key)
}

func TestWhy(t *testing.T) {
	f, err := facts(t, wire.Key{Group: "apps.kruise.io", Kind: "UnitedDeployment", Namespace: "shop", Name: "web"})
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name     string
		question explain.Question
		cells    []string // "<place> <code>: part of why | part of now"
		without  []string // "<cluster>: part of now"
	}{
		{"all", explain.Question{}, []string{
			"east/a (subset one) Even: that is an even share |",
			"north/b (subset two) Frozen: it is unhealthy or cut off | the member is not Ready, so it gets nothing new: the " +
				"agent is silent (LeaseExpired)",
			"gone/b (subset two) FromTheFuture: which this version does not know | there is no MemberCluster gone; the " +
				"members are east, north, south, west",
		}, []string{
			`south: FederationPolicy most selects members with the labels tier=gold (spec.clusters.selector), and this one has "tier=silver"`,
			"west: the member is not accepted (spec.accepted is false)",
		}},
		{"a member", explain.Question{Cluster: "east"}, []string{"east/a (subset one) Even: |"}, nil},
		{"a member without a cell", explain.Question{Cluster: "west"}, nil, []string{"west: not accepted"}},
		{"a zone", explain.Question{Zone: "a"}, []string{"east/a (subset one) Even: |"}, nil},
		{"labels that the hub does not know", explain.Question{Subset: "two", Cluster: "north"}, []string{
			"north/b (subset two) Frozen: does not know the node labels arch and takes them to match | not Ready",
		}, nil},
		{"a subset that the member does not match", explain.Question{Subset: "two", Cluster: "east"}, nil, []string{
			`east: the member does not match subset "two": no member has zone "b" (zones: a)`,
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, err := explain.Why(f, tt.question)
			if err != nil {
				t.Fatal(err)
			}
			if len(a.Cells) != len(tt.cells) || len(a.Without) != len(tt.without) {
				t.Fatalf("%d cells, %d members without: %+v", len(a.Cells), len(a.Without), a)
			}
			for i, want := range tt.cells {
				head, now, _ := strings.Cut(want, "|")
				head, why, _ := strings.Cut(head, ": ")
				c := a.Cells[i]
				if got := explain.Place(c.Cluster, c.Zone, c.Subset) + " " + c.Reason.Code; got != head {
					t.Errorf("cell %d is %s, want %s", i, got, head)
				}
				why, now = strings.TrimSpace(why), strings.TrimSpace(now)
				if !strings.Contains(c.Why, why) || !strings.Contains(strings.Join(c.Now, "; "), now) || now == "" &&
					len(c.Now) > 0 {
					t.Errorf("%s: why %q, now %q; want %q, %q", head, c.Why, c.Now, why, now)
				}
			}
			for i, want := range tt.without {
				cluster, now, _ := strings.Cut(want, ": ")
				if w := a.Without[i]; w.Cluster != cluster || !strings.Contains(strings.Join(w.Now, "; "), now) {
					t.Errorf("without: %+v, want %q", w, want)
				}
			}
		})
	}
	a, err := explain.Why(f, explain.Question{})
	if err != nil {
		t.Fatal(err)
	}
	if len(a.Conditions) != 1 || a.Conditions[0].Type != "Federated" || a.Conditions[0].See != "docs/errors.md#placed" {
		t.Errorf("conditions %+v", a.Conditions)
	}
	if len(a.Unplaced) != 1 || !strings.Contains(a.Unplaced[0].Why, "bring them back") ||
		a.Policy != "FederationPolicy most" || a.Placed != 7 {
		t.Errorf("answer %+v", a)
	}
	if !strings.Contains(a.Pending, "the hub is about to change east/a (subset one) 4 → 5") {
		t.Errorf("pending %q", a.Pending)
	}
}

// TestWrongQuestions holds that a question about a name that is nowhere says what there is.
func TestWrongQuestions(t *testing.T) {
	f, err := facts(t, wire.Key{Group: "apps.kruise.io", Kind: "UnitedDeployment", Namespace: "shop", Name: "web"})
	if err != nil {
		t.Fatal(err)
	}
	for want, q := range map[string]explain.Question{
		`has no member "oest"; there is east, north, south, west`: {Cluster: "oest"},
		`has no zone "q"; there is a, b`:                          {Zone: "q"},
		`has no subset "three"; there is one, two`:                {Subset: "three"},
	} {
		if _, err := explain.Why(f, q); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", q, err, want)
		}
	}
	if _, err := facts(t, wire.Key{Group: "apps.kruise.io", Kind: "UnitedDeployment", Namespace: "shop",
		Name: "wep"}); err == nil || !strings.Contains(err.Error(), "there is no UnitedDeployment shop/wep") {
		t.Errorf("a workload that is not there: %v", err)
	}
	if _, err := facts(t, wire.Key{Kind: "Deployment", Namespace: "shop", Name: "web"}); err == nil ||
		!strings.Contains(err.Error(), "the hub does not place the kind Deployment") {
		t.Errorf("a kind that is not placed: %v", err)
	}
}

// TestPlacementOne says of the other members of an AdvancedCronJob that one member starts the jobs.
func TestPlacementOne(t *testing.T) {
	const schedule = `---
apiVersion: topology.flotilla.dev/v1alpha1
kind: FederationPolicy
metadata: {name: nightly, namespace: shop}
spec:
  workloads: [{kind: AdvancedCronJob}]
  placement: One
  clusters: {names: [east, south]}
---
apiVersion: apps.kruise.io/v1beta1
kind: AdvancedCronJob
metadata: {name: clean, namespace: shop, uid: c}
spec:
  schedule: "@daily"
  template: {jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: main, image: x}]}}}}}
`
	f, err := factsIn(t, fleet+schedule, wire.Key{Group: "apps.kruise.io", Kind: "AdvancedCronJob", Namespace: "shop",
		Name: "clean"})
	if err != nil {
		t.Fatal(err)
	}
	a, err := explain.Why(f, explain.Question{})
	if err != nil {
		t.Fatal(err)
	}
	said := 0
	for _, w := range a.Without {
		if strings.Contains(strings.Join(w.Now, " "), "the policy lets one member start the jobs, and it is another one") {
			said++
		}
	}
	if said != 1 {
		t.Errorf("%+v", a.Without)
	}
}

// TestNotTheHubs holds that a workload outside of federated namespaces gets an answer too.
func TestNotTheHubs(t *testing.T) {
	f, err := facts(t, wire.Key{Group: "apps.kruise.io", Kind: "CloneSet", Namespace: "plain", Name: "lone"})
	if err != nil {
		t.Fatal(err)
	}
	a, err := explain.Why(f, explain.Question{Cluster: "east"})
	if err != nil || len(a.Without) != 1 || !strings.Contains(a.Without[0].Now[0], "its namespace is not federated") {
		t.Errorf("%v: %+v", err, a)
	}
}

// TestReasonsThatPassed holds that a recorded reason which holds no longer says so.
func TestReasonsThatPassed(t *testing.T) {
	for code, want := range map[string]string{"Tainted": "that is over", "Frozen": "that is over", "Even": ""} {
		f, err := facts(t, wire.Key{Group: "apps.kruise.io", Kind: "UnitedDeployment", Namespace: "shop", Name: "web"})
		if err != nil {
			t.Fatal(err)
		}
		f.Forecast.Present.Spec.Cells[0].Reason.Code = code
		a, err := explain.Why(f, explain.Question{Cluster: "east"})
		if err != nil || len(a.Cells) != 1 {
			t.Fatalf("%v: %+v", err, a)
		}
		if now := strings.Join(a.Cells[0].Now, "; "); !strings.HasPrefix(now, want) || want == "" && now != "" {
			t.Errorf("%s: now %q, want %q", code, now, want)
		}
		f.Forecast.Next = nil // what is placed stays
		p := explain.Plan(f.Key, &f.Forecast)
		if c := p.Cells[0]; c.Passed != (want != "") || !strings.Contains(c.Why, want) {
			t.Errorf("%s: planned as %+v, want %q", code, c, want)
		}
	}
}

const promised = `
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {topology.flotilla.dev/federated: "true"}}
---
apiVersion: topology.flotilla.dev/v1alpha1
kind: FederationPolicy
metadata: {name: most, namespace: shop}
spec: {workloads: [{kind: CloneSet}]}
---
` + member + `
metadata: {name: east}
spec: {accepted: true}
status: {zones: [{name: a, nodes: 2, ready: 2, allocatable: {cpu: "4"}, requested: {cpu: "0"}}]}
---
apiVersion: apps.kruise.io/v1beta1
kind: CloneSet
metadata: {name: web, namespace: shop, uid: u}
spec: {replicas: 3, selector: {matchLabels: {app: x}}, template: {metadata: {labels: {app: x}}, spec: {containers: [{name: main, image: x, resources: {requests: {cpu: "1"}}}]}}}
---
apiVersion: topology.flotilla.dev/v1alpha1
kind: WorkloadPlacement
metadata: {name: cloneset-web, namespace: shop, uid: p}
spec:
  workload: {apiVersion: apps.kruise.io/v1beta1, kind: CloneSet, name: web, uid: u, generation: 0}
  policy: {kind: FederationPolicy, name: most}
  revision: x
  replicas: 3
  placed: 1
  sequence: 1
  revisionSequence: 1
  cells:
  - {cluster: east, replicas: 1, sequence: 1, reason: {code: Full}, share: {update: 1, break: 1, add: 0}, held: {update: 1, break: 1, add: 0}}
  unplaced:
  - {replicas: 2, reason: {code: Full}}
---
apiVersion: topology.flotilla.dev/v1alpha1
kind: WorkloadPlacement
metadata: {name: cloneset-big, namespace: shop, uid: q}
spec:
  workload: {apiVersion: apps.kruise.io/v1beta1, kind: CloneSet, name: big, uid: v, generation: 1}
  revision: x
  replicas: BIG
  placed: BIG
  sequence: 1
  revisionSequence: 1
  cells:
  - {cluster: east, replicas: BIG, sequence: 1, reason: {code: Even}, share: {update: 1, break: 1, add: 0}, held: {update: 1, break: 1, add: 0}}
`

// TestRoomThatIsPromised: where others have been given the room that a member reports, and their pods are not Ready
// yet, the hub is not about to give it away.
func TestRoomThatIsPromised(t *testing.T) {
	for replicas, want := range map[string]string{
		"2": "replicas wait for room in east, which is reserved for CloneSet shop/big: their pods are not all Ready there; " +
			"what those leave is given then",
		"0": "the hub is about to change east 1 → 3",
	} {
		f, err := factsIn(t, strings.ReplaceAll(promised, "BIG", replicas),
			wire.Key{Group: "apps.kruise.io", Kind: "CloneSet", Namespace: "shop", Name: "web"})
		if err != nil {
			t.Fatal(err)
		}
		a, err := explain.Why(f, explain.Question{})
		if err != nil {
			t.Fatal(err)
		}
		if a.Pending != want {
			t.Errorf("with %s replicas of the other: %q, want %q", replicas, a.Pending, want)
		}
	}
}

// TestCase3WhyOfADeletedWorkload: it says what the deletion waits for, and whether the pods stay until then.
func TestCase3WhyOfADeletedWorkload(t *testing.T) {
	const named, deleted = "metadata: {name: web, namespace: shop, uid: u, generation: 3",
		", deletionTimestamp: \"2026-01-01T00:00:00Z\""
	const owned = "metadata: {name: uniteddeployment-web, namespace: shop, uid: p"
	inPlace := strings.Replace(fleet, owned, owned+", ownerReferences: [{apiVersion: apps.kruise.io/v1beta1, kind: "+
		"UnitedDeployment, name: web, uid: u}]", 1)
	for finalizers, want := range map[string]struct {
		says    []string
		removed bool
	}{
		"example.com/guard": {[]string{"the finalizer example.com/guard", "keep running"}, false},
		"foregroundDeletion, example.com/guard": {[]string{"the finalizer example.com/guard", "foreground",
			"is being removed"}, true},
		"orphan": {[]string{"keep running (orphan)", "is being removed"}, true},
	} {
		f, err := factsIn(t, strings.Replace(inPlace, named, named+deleted+", finalizers: ["+finalizers+"]", 1),
			wire.Key{Group: "apps.kruise.io", Kind: "UnitedDeployment", Namespace: "shop", Name: "web"})
		if err != nil {
			t.Fatal(err)
		}
		a, err := explain.Why(f, explain.Question{})
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range want.says {
			if !strings.Contains(a.Pending, text) {
				t.Errorf("%s: %q lacks %q", finalizers, a.Pending, text)
			}
		}
		if f.Forecast.Remove != want.removed {
			t.Errorf("%s: removed %t", finalizers, f.Forecast.Remove)
		}
		for _, w := range a.Without {
			if strings.Contains(strings.Join(w.Now, " "), "not federated") {
				t.Errorf("%s: %+v", finalizers, w)
			}
		}
	}
}

// TestReasonsOfPods holds that a question about a member has its own words and all its reasons, and that those of a
// member that is not Ready are left out.
func TestReasonsOfPods(t *testing.T) {
	key := wire.Key{Group: "apps.kruise.io", Kind: "UnitedDeployment", Namespace: "shop", Name: "web"}
	text := strings.ReplaceAll(fleet, "status: {zones: [{name: a, nodes: 2, ready: 2}]}",
		`status: {zones: [{name: a, nodes: 2, ready: 2}], conditions: [{type: Ready, status: "True", reason: Ready, `+
			`message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}]}`)
	for cluster, said := range map[string]string{"east": "0/3 nodes", "west": "0/7 nodes", "north": "0/9 nodes"} {
		at := key.Work(cluster)
		text += fmt.Sprintf(`---
apiVersion: work.karmada.io/v1alpha1
kind: Work
metadata: {name: %q, namespace: %q, labels: {%s: p}, annotations: {%s: %q}}
status: {report: {hubID: hub, sequence: 1, inUse: [], notReady: [{reason: Unschedulable, message: %q, count: 2, pod: web-x}]}}
`, at.Name, at.Namespace, topology.LabelPlacement, topology.AnnotationWorkload, key.String(), said)
	}
	text += "---\n" + member + `
metadata: {name: west}
spec: {accepted: true}
status: {zones: [{name: a, nodes: 2, ready: 2}], conditions: [{type: Ready, status: "True", reason: Ready, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}]}
`
	f, err := factsIn(t, text, key)
	if err != nil {
		t.Fatal(err)
	}
	for cluster, want := range map[string]string{
		"":      "[Unschedulable: 0/3 nodes (4 pods: east 2, west 2; see pod web-x in east)]",
		"west":  "[Unschedulable: 0/7 nodes (2 pods: west 2; see pod web-x in west)]",
		"north": "[]",
	} {
		answer, err := explain.Why(f, explain.Question{Cluster: cluster})
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(answer.PodReasons); got != want {
			t.Errorf("of %q: %s, want %s", cluster, got, want)
		}
	}
}
