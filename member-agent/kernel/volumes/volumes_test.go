package volumes_test

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/yaml"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/volumes"
)

var start = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// claimTemplate returns a claim template of one access mode and this size.
func claimTemplate(name, size string) corev1.PersistentVolumeClaim {
	return corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}},
		},
	}
}

func newSet(templates ...corev1.PersistentVolumeClaim) volumes.Set {
	return volumes.Set{
		Object:    &v1beta1.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "set"}},
		Kind:      v1beta1.CloneSetKind,
		Labels:    map[string]string{"app": "web"},
		Templates: templates,
	}
}

// newClaim returns a claim of the template as the API server has it, age old at start plus an hour.
func newClaim(s volumes.Set, template, id string, age time.Duration) *corev1.PersistentVolumeClaim {
	t := claimTemplate(template, "1Gi")
	claim := s.New(&t, id)
	claim.UID, claim.ResourceVersion = types.UID(claim.Name), "1"
	claim.CreationTimestamp = metav1.NewTime(start.Add(time.Hour - age))
	claim.Spec.VolumeMode, claim.Spec.StorageClassName, claim.Spec.VolumeName = new(corev1.PersistentVolumeFilesystem),
		new("std"), "pv-"+claim.Name
	return claim
}

func newPod(s volumes.Set, id string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "web-" + id, UID: types.UID("pod-" + id),
		Labels: map[string]string{v1beta1.LabelInstanceID: id},
	}}
	s.For(&corev1.PodTemplateSpec{}, "", nil).Attach(pod, id)
	return pod
}

// ofPod makes the pod of this id the claim's only owner.
func ofPod(claim *corev1.PersistentVolumeClaim, id string) *corev1.PersistentVolumeClaim {
	claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "web-" + id,
		UID: types.UID("pod-" + id)}}
	return claim
}

func going(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	claim.DeletionTimestamp = new(metav1.NewTime(start))
	return claim
}

func named(claims ...*corev1.PersistentVolumeClaim) func(string) *corev1.PersistentVolumeClaim {
	return func(name string) *corev1.PersistentVolumeClaim {
		i := slices.IndexFunc(claims, func(c *corev1.PersistentVolumeClaim) bool { return c.Name == name })
		if i < 0 {
			return nil
		}
		return claims[i]
	}
}

// describe prints a plan: +claim goes to its pod, ^claim back to the set, -claim is deleted, =id is free, !claim
// conflicts.
func describe(p volumes.Plan) string {
	var out []string
	for _, t := range p.Own {
		sign := "+"
		if t.Why == volumes.WhyKept {
			sign = "^"
		}
		out = append(out, sign+t.Claim.Name)
	}
	for _, r := range p.Delete {
		out = append(out, "-"+r.Claim.Name)
	}
	for _, id := range p.Free {
		out = append(out, "="+id)
	}
	for _, c := range p.Conflicts {
		out = append(out, "!"+c.Claim.Name)
	}
	return strings.Join(out, " ")
}

func TestCompute(t *testing.T) {
	data := newSet(claimTemplate("data", "1Gi"))
	two := newSet(claimTemplate("data", "1Gi"), claimTemplate("log", "1Gi"))
	a, b := newPod(data, "aaaaa"), newPod(data, "bbbbb")
	chosen := newPod(data, "aaaaa")
	chosen.Labels[v1beta1.LabelSpecifiedDelete] = ""
	unlabelled := newPod(data, "aaaaa")
	delete(unlabelled.Labels, v1beta1.LabelInstanceID)
	claim := func(id string) *corev1.PersistentVolumeClaim { return newClaim(data, "data", id, time.Hour) }
	log := func(id string) *corev1.PersistentVolumeClaim { return newClaim(data, "log", id, time.Hour) }
	foreign := func(id string) *corev1.PersistentVolumeClaim {
		c := log(id)
		c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db", UID: "db",
			Controller: new(true)}}
		return c
	}
	renamed := claim("aaaaa")
	renamed.Name = "mine"
	unowned := claim("aaaaa")
	unowned.OwnerReferences = nil
	type claims = []*corev1.PersistentVolumeClaim
	type pods = []*corev1.Pod
	tests := []struct {
		name string
		f    volumes.Facts
		want string
	}{
		{"nothing", volumes.Facts{Set: data}, ""},
		{"live pods", volumes.Facts{Set: data, Claims: claims{claim("aaaaa")}, Pods: podset.Set{Active: pods{a}}}, ""},
		{"live pods with reuse", volumes.Facts{Set: data, Reuse: true, Claims: claims{claim("aaaaa")},
			Pods: podset.Set{Active: pods{a}}}, ""},

		{"no pod is left", volumes.Facts{Set: data, Claims: claims{claim("aaaaa"), claim("bbbbb")},
			Pods: podset.Set{Active: pods{b}}}, "-data-web-aaaaa"},
		{"no pod is left of a removed template", volumes.Facts{Set: newSet(), Claims: claims{claim("aaaaa")}},
			"-data-web-aaaaa"},
		{"no pod yet", volumes.Facts{Set: data, Claims: claims{newClaim(data, "data", "aaaaa", 10*time.Second)}}, ""},
		{"being deleted already", volumes.Facts{Set: data, Claims: claims{going(claim("aaaaa"))}}, ""},
		{"mounted by a pod without the label", volumes.Facts{Set: data, Claims: claims{claim("aaaaa")},
			Pods: podset.Set{Active: pods{unlabelled}}}, ""},
		{"another name", volumes.Facts{Set: data, Claims: claims{renamed}}, ""},
		{"no owner", volumes.Facts{Set: data, Claims: claims{unowned}}, ""},
		{"another controller", volumes.Facts{Set: data, Claims: claims{foreign("aaaaa")}}, ""},

		{"the pod terminates", volumes.Facts{Set: data, Claims: claims{claim("aaaaa")},
			Pods: podset.Set{Terminating: pods{a}}}, "+data-web-aaaaa"},
		{"the pod has ended", volumes.Facts{Set: data, Claims: claims{claim("aaaaa")}, Pods: podset.Set{Ended: pods{a}}},
			"+data-web-aaaaa"},
		{"it went with the pod", volumes.Facts{Set: data, Claims: claims{ofPod(claim("aaaaa"), "aaaaa")},
			Pods: podset.Set{Terminating: pods{a}}}, ""},
		{"one of two pods with the id is live", volumes.Facts{Set: data, Claims: claims{claim("aaaaa")},
			Pods: podset.Set{Active: pods{a}, Terminating: pods{a}}}, ""},

		{"free for reuse", volumes.Facts{Set: data, Reuse: true, Claims: claims{claim("aaaaa")},
			Pods: podset.Set{Active: pods{b}}}, "=aaaaa"},
		{"the oldest first", volumes.Facts{Set: data, Reuse: true,
			Claims: claims{claim("aaaaa"), newClaim(data, "data", "bbbbb", 2*time.Hour), claim("ccccc")}},
			"=bbbbb =aaaaa =ccccc"},
		{"not while the old pod terminates", volumes.Facts{Set: data, Reuse: true, Claims: claims{claim("aaaaa")},
			Pods: podset.Set{Terminating: pods{a}}}, ""},
		{"not while the old pod has ended", volumes.Facts{Set: data, Reuse: true, Claims: claims{claim("aaaaa")},
			Pods: podset.Set{Ended: pods{a}}}, ""},
		{"not while a claim is being deleted", volumes.Facts{Set: data, Reuse: true,
			Claims: claims{going(claim("aaaaa")), log("aaaaa")}}, ""},
		{"not while a pod mounts it", volumes.Facts{Set: data, Reuse: true, Claims: claims{claim("aaaaa")},
			Pods: podset.Set{Terminating: pods{unlabelled}}}, ""},
		{"not while the pod of another instance owns it",
			volumes.Facts{Set: data, Reuse: true, Claims: claims{ofPod(claim("aaaaa"), "bbbbb")},
				Pods: podset.Set{Active: pods{b}}}, ""},
		{"what it lacks is made", volumes.Facts{Set: two, Reuse: true, Claims: claims{claim("aaaaa")}}, "=aaaaa"},
		{"no template is left", volumes.Facts{Set: newSet(), Reuse: true, Claims: claims{claim("aaaaa")}}, ""},
		{"what it lacks is another's", volumes.Facts{Set: two, Reuse: true, Claims: claims{claim("aaaaa"), claim("bbbbb")},
			Named: named(foreign("aaaaa"))}, "=bbbbb !log-web-aaaaa"},
		{"what it lacks is still going", volumes.Facts{Set: two, Reuse: true, Claims: claims{claim("aaaaa")},
			Named: named(ofPod(log("aaaaa"), "aaaaa"))}, ""},

		{"removed by the controller", volumes.Facts{Set: data, Claims: claims{claim("aaaaa")},
			Pods: podset.Set{Active: pods{a}}, Leaving: pods{a}}, "+data-web-aaaaa"},
		{"removed by the controller with reuse", volumes.Facts{Set: two, Reuse: true,
			Claims: claims{claim("aaaaa"), log("aaaaa"), claim("bbbbb")}, Pods: podset.Set{Active: pods{a, b}},
			Leaving: pods{a}}, "+data-web-aaaaa +log-web-aaaaa"},
		{"an ended pod that is removed leaves its claims",
			volumes.Facts{Set: data, Reuse: true, Claims: claims{claim("aaaaa")}, Pods: podset.Set{Ended: pods{a}},
				Leaving: pods{a}}, ""},
		{"an ended pod that was chosen does not", volumes.Facts{Set: data, Reuse: true, Claims: claims{claim("aaaaa")},
			Pods: podset.Set{Ended: pods{chosen}}, Leaving: pods{chosen}}, "+data-web-aaaaa"},

		{"reuse was turned on", volumes.Facts{Set: data, Reuse: true,
			Claims: claims{ofPod(claim("aaaaa"), "aaaaa"), ofPod(claim("bbbbb"), "bbbbb")},
			Pods:   podset.Set{Active: pods{a}, Ended: pods{b}}}, "^data-web-aaaaa ^data-web-bbbbb"},
		{"reuse was turned on too late", volumes.Facts{Set: data, Reuse: true, Claims: claims{ofPod(claim("aaaaa"), "aaaaa")},
			Pods: podset.Set{Terminating: pods{a}}}, ""},
		{"what stays without reuse need not come back", volumes.Facts{Set: data,
			Claims: claims{ofPod(claim("aaaaa"), "aaaaa")}, Pods: podset.Set{Active: pods{a}}}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.f.Now = start.Add(time.Hour)
			if got := describe(volumes.Compute(tt.f)); got != tt.want {
				t.Errorf("plan %q, want %q", got, tt.want)
			}
		})
	}
}

func TestTransfersKeepOtherOwners(t *testing.T) {
	s := newSet(claimTemplate("data", "1Gi"))
	other := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "keep", UID: "keep"}
	claim := newClaim(s, "data", "aaaaa", time.Hour)
	claim.OwnerReferences = append(claim.OwnerReferences, other)
	f := volumes.Facts{Set: s, Claims: []*corev1.PersistentVolumeClaim{claim}, Now: start.Add(time.Hour)}
	f.Pods.Active = []*corev1.Pod{newPod(s, "aaaaa")}
	f.Leaving = f.Pods.Active
	before := slices.Clone(claim.OwnerReferences)
	there := volumes.Compute(f).Own[0].Owners
	want := []metav1.OwnerReference{other, {APIVersion: "v1", Kind: "Pod", Name: "web-aaaaa", UID: "pod-aaaaa"}}
	if !equality.Semantic.DeepEqual(there, want) || !equality.Semantic.DeepEqual(claim.OwnerReferences, before) {
		t.Errorf("owners %v, and the claim's own are now %v", there, claim.OwnerReferences)
	}
	claim.OwnerReferences, f.Leaving, f.Reuse = there, nil, true
	back := volumes.Compute(f).Own[0].Owners
	if !equality.Semantic.DeepEqual(back, []metav1.OwnerReference{other, *metav1.NewControllerRef(s.Object, s.Kind)}) {
		t.Errorf("back to %v", back)
	}
}

func TestAClaimWithoutItsPodIsLookedAtAgain(t *testing.T) {
	s := newSet(claimTemplate("data", "1Gi"))
	f := volumes.Facts{Set: s, Claims: []*corev1.PersistentVolumeClaim{newClaim(s, "data", "aaaaa", 10*time.Second),
		newClaim(s, "data", "bbbbb", 20*time.Second)}, Now: start.Add(time.Hour)}
	plan := volumes.Compute(f)
	if plan.Wake <= 0 || len(plan.Delete) > 0 {
		t.Fatalf("plan %+v", plan)
	}
	f.Now = f.Now.Add(plan.Wake)
	if got := describe(volumes.Compute(f)); got != "-data-web-bbbbb" {
		t.Errorf("after %v the plan is %q", plan.Wake, got)
	}
}

func TestIDs(t *testing.T) {
	next := 0
	random := func() string { next++; return fmt.Sprint(next / 2) } // every id comes twice
	taken := func(id string) bool { return id == "2" }
	got := volumes.Plan{Free: []string{"1", "x"}}.IDs(5, random, taken)
	if !slices.Equal(got, []string{"1", "x", "0", "3", "4"}) {
		t.Errorf("ids %v", got)
	}
	if got := (volumes.Plan{Free: []string{"1", "x"}}).IDs(1, random, taken); !slices.Equal(got, []string{"1"}) {
		t.Errorf("one id %v", got)
	}
}

func TestValidate(t *testing.T) {
	long := strings.Repeat("a", 240)
	tests := []struct {
		name, set string
		templates []corev1.PersistentVolumeClaim
		want      string
	}{
		{"none", "web", nil, ""},
		{"two", "web", []corev1.PersistentVolumeClaim{claimTemplate("data", "1Gi"), claimTemplate("log", "1Gi")}, ""},
		{"a name as long as may be", long, []corev1.PersistentVolumeClaim{claimTemplate("dataaa", "1Gi")}, ""},
		{"a name too long", long, []corev1.PersistentVolumeClaim{claimTemplate("dataaaa", "1Gi")},
			"254 characters, and 253 are allowed"},
		{"no name", "web", []corev1.PersistentVolumeClaim{claimTemplate("", "1Gi")}, "volumeClaimTemplates[0] has no name"},
		{"a name twice", "web", []corev1.PersistentVolumeClaim{claimTemplate("data", "1Gi"), claimTemplate("data", "2Gi")},
			`volumeClaimTemplates[1] is named "data" like one before`},
		{"no name of a volume", "web", []corev1.PersistentVolumeClaim{claimTemplate("da.ta", "1Gi")},
			"cannot be the name of a volume"},
		{"no size", "web", []corev1.PersistentVolumeClaim{claimTemplate("data", "0")}, "asks for no storage"},
		{"no access mode", "web", []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}}},
			"has no access mode"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cause := volumes.Validate(tt.set, tt.templates)
			switch {
			case tt.want == "" && cause != nil:
				t.Errorf("refused: %s", cause.Message)
			case tt.want != "" && (cause == nil || cause.Reason != volumes.ReasonInvalid ||
				!strings.Contains(cause.Message, tt.want)):
				t.Errorf("cause %+v, want %q", cause, tt.want)
			}
		})
	}
}

func TestConflict(t *testing.T) {
	s := newSet()
	claim := newClaim(s, "data", "aaaaa", 0)
	claim.OwnerReferences[0] = metav1.OwnerReference{Kind: "StatefulSet", Name: "db", Controller: new(true)}
	want := "claim shop/data-web-aaaaa belongs to StatefulSet db and not to CloneSet web, and is left alone: delete it " +
		"if nobody needs it, or rename the claim template"
	if got := (&volumes.Conflict{Claim: claim, Set: "CloneSet web"}).Error(); got != want {
		t.Errorf("%q", got)
	}
	claim.OwnerReferences = nil
	if got := (&volumes.Conflict{Claim: claim, Set: "CloneSet web"}).Error(); !strings.Contains(got, "belongs to nobody") {
		t.Errorf("%q", got)
	}
}

// recording is what a real OpenKruise manager left.
func recording(t *testing.T) (*v1beta1.CloneSet, podset.Set, []*corev1.PersistentVolumeClaim) {
	t.Helper()
	file, err := os.ReadFile("testdata/openkruise.yaml")
	if err != nil {
		t.Fatal(err)
	}
	cs, pods, claims := &v1beta1.CloneSet{}, podset.Set{}, []*corev1.PersistentVolumeClaim{}
	for _, doc := range bytes.Split(file, []byte("\n---\n")) {
		var meta metav1.TypeMeta
		if err := yaml.Unmarshal(doc, &meta); err != nil {
			t.Fatal(err)
		}
		var into any = cs
		switch meta.Kind {
		case "Pod":
			pods.Active = append(pods.Active, &corev1.Pod{})
			into = pods.Active[len(pods.Active)-1]
		case "PersistentVolumeClaim":
			claims = append(claims, &corev1.PersistentVolumeClaim{})
			into = claims[len(claims)-1]
		}
		if err := yaml.Unmarshal(doc, into); err != nil {
			t.Fatal(err)
		}
	}
	if len(pods.Active) != 2 || len(claims) != 2 {
		t.Fatalf("%d pods, %d claims", len(pods.Active), len(claims))
	}
	return cs, pods, claims
}

func TestTakeOver(t *testing.T) {
	cs, pods, claims := recording(t)
	s := volumes.Set{Object: cs, Kind: v1beta1.CloneSetKind, Labels: cs.Spec.Selector.MatchLabels,
		Templates: cs.Spec.VolumeClaimTemplates}
	if got := volumes.Hash(s.Templates); got != "3636919212" {
		t.Errorf("hash %s", got)
	}
	source, err := sourceOf(claims...)
	if err != nil {
		t.Fatal(err)
	}
	observed, err := source.Observe(cs.UID, pods)
	if err != nil || len(observed) != 2 {
		t.Fatalf("observed %d claims, %v", len(observed), err)
	}
	for _, reuse := range []bool{true, false} {
		f := volumes.Facts{Set: s, Reuse: reuse, Claims: observed, Pods: pods, Named: source.Named(cs.Namespace),
			Now: claims[0].CreationTimestamp.Add(time.Hour)}
		if got := describe(volumes.Compute(f)); got != "" {
			t.Errorf("reuse %v: the plan is %s", reuse, got)
		}
	}
	if change := s.Changed(pods.Active, observed); change.Pods > 0 {
		t.Errorf("changed: %s", change.Message(true))
	}
	for i, pod := range pods.Active {
		id := pod.Labels[v1beta1.LabelInstanceID]
		built := s.New(&s.Templates[0], id)
		published := source.Named(cs.Namespace)(volumes.Name(s.Templates[0].Name, cs.Name, id)).DeepCopy()
		// What the API server adds.
		built.Spec.VolumeMode = new(corev1.PersistentVolumeFilesystem)
		have := corev1.PersistentVolumeClaim{Spec: published.Spec, ObjectMeta: metav1.ObjectMeta{
			Namespace: published.Namespace, Name: published.Name, Labels: published.Labels,
			OwnerReferences: published.OwnerReferences,
		}}
		if !equality.Semantic.DeepEqual(*built, have) {
			t.Errorf("claim %d is\n%+v, published is\n%+v", i, *built, have)
		}
		bare := &corev1.Pod{}
		s.For(&cs.Spec.Template.PodTemplateSpec, volumes.Hash(s.Templates), observed).Attach(bare, id)
		if !equality.Semantic.DeepEqual(bare.Spec.Volumes, pod.Spec.Volumes[:1]) {
			t.Errorf("volumes %+v, published are %+v", bare.Spec.Volumes, pod.Spec.Volumes)
		}
	}
}

// A pod that others deleted keeps its claims for the next one, which waits for it, but not for ever.
func TestANewPodWaitsForTheClaimsOfTheOldOne(t *testing.T) {
	for _, tt := range []struct {
		reason string
		reuse  bool
		since  time.Duration // since the pod's deletion timestamp
		hold   int32
	}{
		{"in its grace period", true, -10 * time.Second, 1},
		{"a moment after it", true, 29 * time.Second, 1},
		{"its node is lost", true, 30 * time.Second, 0},
		{"without reuse nobody waits", false, -10 * time.Second, 0},
	} {
		set := newSet(claimTemplate("data", "1Gi"))
		pod := newPod(set, "aaaaa")
		pod.DeletionTimestamp = new(metav1.NewTime(start.Add(-tt.since)))
		plan := volumes.Compute(volumes.Facts{
			Set: set, Reuse: tt.reuse, Now: start, Pods: podset.Set{Terminating: []*corev1.Pod{pod}},
			Claims: []*corev1.PersistentVolumeClaim{newClaim(set, "data", "aaaaa", time.Hour)},
		})
		if plan.Hold != tt.hold {
			t.Errorf("%s: %d pods wait, want %d", tt.reason, plan.Hold, tt.hold)
		}
	}
}

// A claim that somebody deleted just when its pod was made is made again: no kubelet starts the pod without it.
func TestALostClaimIsMadeAgain(t *testing.T) {
	data := newSet(claimTemplate("data", "1Gi"))
	waits, runs, leaves := newPod(data, "aaaaa"), newPod(data, "bbbbb"), newPod(data, "ccccc")
	runs.Status.Phase = corev1.PodRunning
	facts := volumes.Facts{
		Set: data, Pods: podset.Set{Active: []*corev1.Pod{waits, runs, leaves}}, Leaving: []*corev1.Pod{leaves},
		Named: named(),
	}
	got := volumes.Compute(facts).Make
	if len(got) != 1 || got[0].Name != "data-web-aaaaa" || metav1.GetControllerOf(got[0]) == nil {
		t.Errorf("it makes %v, want data-web-aaaaa of the set", got)
	}
	// One that is on its way out is waited for.
	facts.Named = named(going(newClaim(data, "data", "aaaaa", time.Hour)))
	if got := volumes.Compute(facts).Make; len(got) != 0 {
		t.Errorf("it makes %v beside the one that is being deleted", got)
	}
}

// sourceOf returns a source over these claims.
func sourceOf(claims ...*corev1.PersistentVolumeClaim) (*volumes.Source, error) {
	indexer := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{})
	for _, object := range claims {
		if err := indexer.Add(object); err != nil {
			return nil, err
		}
	}
	return volumes.FromIndexer(indexer)
}

func TestOrdinalsAreIdentities(t *testing.T) {
	s := newSet(claimTemplate("data", "1Gi"))
	s.Identity = volumes.ByOrdinal
	claim := s.New(&s.Templates[0], "12")
	if claim.Name != "data-web-12" || len(claim.OwnerReferences) > 0 || claim.Labels[v1beta1.LabelInstanceID] != "" {
		t.Errorf("claim %+v", claim.ObjectMeta)
	}
	for name, want := range map[string]string{"data-web-12": "12", "web-0": "0", "web-a": "", "web": "", "other-3": "",
		"xweb-3": ""} {
		if got := s.ID(&metav1.ObjectMeta{Name: name}); got != want {
			t.Errorf("%s has the id %q, want %q", name, got, want)
		}
	}
}
