package cloneset

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/yaml"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/volumes"
)

// What a real OpenKruise manager left is at rest for us too: nothing is created, updated or deleted, and the revisions
// and counters of the status stay.
func TestTakeOver(t *testing.T) {
	moments, err := filepath.Glob("testdata/openkruise/*.yaml")
	if err != nil || len(moments) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	for _, moment := range moments {
		t.Run(filepath.Base(moment), func(t *testing.T) { takeOverAll(t, moment) })
	}
}

func takeOverAll(t *testing.T, moment string) {
	file, err := os.ReadFile(moment)
	must(t, err)
	var cloneSets []*v1beta1.CloneSet
	var pods []*corev1.Pod
	var claims []*corev1.PersistentVolumeClaim
	var revisions []*appsv1.ControllerRevision
	for _, doc := range bytes.Split(file, []byte("\n---\n")) {
		var meta metav1.TypeMeta
		must(t, yaml.Unmarshal(doc, &meta))
		switch meta.Kind {
		case "CloneSet":
			cloneSets = append(cloneSets, &v1beta1.CloneSet{})
			must(t, yaml.Unmarshal(doc, cloneSets[len(cloneSets)-1]))
		case "Pod":
			pods = append(pods, &corev1.Pod{})
			must(t, yaml.Unmarshal(doc, pods[len(pods)-1]))
		case "PersistentVolumeClaim":
			claims = append(claims, &corev1.PersistentVolumeClaim{})
			must(t, yaml.Unmarshal(doc, claims[len(claims)-1]))
		case "ControllerRevision":
			revisions = append(revisions, &appsv1.ControllerRevision{})
			must(t, yaml.Unmarshal(doc, revisions[len(revisions)-1]))
		}
	}
	podSource, err := podsOf(pods...)
	must(t, err)
	claimSource, err := claimsOf(claims...)
	must(t, err)
	for _, cs := range cloneSets {
		t.Run(cs.Name, func(t *testing.T) { takeOver(t, cs, podSource, claimSource, revisions) })
	}
}

func takeOver(t *testing.T, cs *v1beta1.CloneSet, pods *podset.Source, claims *volumes.Source,
	revisions []*appsv1.ControllerRevision) {
	sim := newSimulation(t, 0)
	sim.cs, sim.now = cs, time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	for _, revision := range revisions {
		if metav1.IsControlledBy(revision, cs) {
			sim.revisions = append(sim.revisions, revision)
		}
	}
	history.Sort(sim.revisions)
	facts := sim.facts()
	var err error
	facts.Pods, err = pods.Observe(cs.UID, nil)
	must(t, err)
	facts.Claims, err = claims.Observe(cs.UID, facts.Pods)
	must(t, err)
	facts.Claim = claims.Named(cs.Namespace)
	plan, err := Compute(facts)
	must(t, err)
	if !empty(plan) {
		t.Errorf("the plan is %s", describe(plan))
	}
	before := cs.Status.DeepCopy()
	facts.Collisions = before.CollisionCount
	after := (&Reconciler{}).status(&scope{pass: &pass{}, cs: cs, facts: facts, plan: plan})
	before.Conditions, after.Conditions = nil, nil
	if before.Replicas == 0 || !reflect.DeepEqual(after, *before) {
		t.Errorf("status becomes %+v, was %+v", after, *before)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// claimsOf returns a source over these claims.
func claimsOf(claims ...*corev1.PersistentVolumeClaim) (*volumes.Source, error) {
	indexer := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{})
	for _, object := range claims {
		if err := indexer.Add(object); err != nil {
			return nil, err
		}
	}
	return volumes.FromIndexer(indexer)
}
