package volumes_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/volumes"
)

func TestHash(t *testing.T) {
	data, log := claimTemplate("data", "1Gi"), claimTemplate("log", "1Gi")
	dressed := claimTemplate("data", "1Gi")
	dressed.Labels, dressed.Status.Phase = map[string]string{"a": "b"}, corev1.ClaimPending
	one := volumes.Hash([]corev1.PersistentVolumeClaim{data})
	tests := []struct {
		name      string
		templates []corev1.PersistentVolumeClaim
		same      bool
	}{
		{"labels and status do not count", []corev1.PersistentVolumeClaim{dressed}, true},
		{"the name counts", []corev1.PersistentVolumeClaim{log}, false},
		{"the size counts", []corev1.PersistentVolumeClaim{claimTemplate("data", "2Gi")}, false},
		{"the number counts", []corev1.PersistentVolumeClaim{data, log}, false},
		{"none", nil, false},
	}
	for _, tt := range tests {
		if got := volumes.Hash(tt.templates); (got == one) != tt.same {
			t.Errorf("%s: %q and %q", tt.name, got, one)
		}
	}
	if volumes.Hash([]corev1.PersistentVolumeClaim{data, log}) != volumes.Hash([]corev1.PersistentVolumeClaim{log, data}) {
		t.Error("the order of templates counts")
	}
	if got := volumes.Hash(nil); got != "" {
		t.Errorf("no templates have hash %q", got)
	}
}

func TestNewTakesOverWhatTheTemplateSays(t *testing.T) {
	s := newSet()
	template := claimTemplate("data", "1Gi")
	template.Labels = map[string]string{"app": "other", "tier": "disk", v1beta1.LabelInstanceID: "x"}
	template.Annotations = map[string]string{"note": "kept"}
	template.Spec.StorageClassName = new("fast")
	claim := s.New(&template, "aaaaa")
	if claim.Labels["app"] != "web" || claim.Labels["tier"] != "disk" ||
		claim.Labels[v1beta1.LabelInstanceID] != "aaaaa" || claim.Annotations["note"] != "kept" {
		t.Errorf("labels %v, annotations %v", claim.Labels, claim.Annotations)
	}
	*claim.Spec.StorageClassName = "slow"
	claim.Labels["tier"], claim.Annotations["note"] = "", ""
	if *template.Spec.StorageClassName != "fast" || template.Labels["tier"] != "disk" ||
		template.Annotations["note"] != "kept" || s.Labels["tier"] != "" {
		t.Error("the claim shares memory with its template")
	}
}

func TestAttachReplacesVolumesOfTheName(t *testing.T) {
	s := newSet(claimTemplate("data", "1Gi"), claimTemplate("log", "1Gi"))
	pod := &corev1.Pod{Spec: corev1.PodSpec{Volumes: []corev1.Volume{{Name: "config"}, {Name: "log"}}}}
	p := s.For(&corev1.PodTemplateSpec{}, "", nil)
	p.Attach(pod, "aaaaa")
	var got []string
	for _, volume := range pod.Spec.Volumes {
		claim := ""
		if volume.PersistentVolumeClaim != nil {
			claim = volume.PersistentVolumeClaim.ClaimName
		}
		got = append(got, volume.Name+"="+claim)
	}
	if want := []string{"config=", "log=log-web-aaaaa", "data=data-web-aaaaa"}; !slices.Equal(got, want) {
		t.Errorf("volumes %v", got)
	}
	missing := p.Missing("aaaaa", named(newClaim(s, "data", "aaaaa", 0)))
	if len(missing) != 1 || missing[0].Name != "log-web-aaaaa" {
		t.Errorf("missing %v", missing)
	}
}

// A partition can be filled though a claim template that the old revision mounts is gone.
func TestForAnOldRevision(t *testing.T) {
	old := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		Volumes:        []corev1.Volume{{Name: "config"}},
		InitContainers: []corev1.Container{{VolumeMounts: []corev1.VolumeMount{{Name: "data"}}}},
		Containers: []corev1.Container{{
			VolumeMounts:  []corev1.VolumeMount{{Name: "config"}, {Name: "data"}, {Name: "log"}, {Name: "tmp"}},
			VolumeDevices: []corev1.VolumeDevice{{Name: "block"}},
		}},
	}}
	s := newSet(claimTemplate("log", "1Gi"))
	madeWith := volumes.Hash([]corev1.PersistentVolumeClaim{claimTemplate("data", "1Gi"), claimTemplate("log", "1Gi"),
		claimTemplate("tmp", "1Gi")})
	young := newClaim(s, "data", "bbbbb", time.Minute)
	young.Spec.StorageClassName = new("young")
	claims := []*corev1.PersistentVolumeClaim{newClaim(s, "data", "aaaaa", time.Hour), young,
		newClaim(s, "data", "ccccc", time.Hour)}

	p := s.For(old, madeWith, claims)
	if len(p.Templates) != 2 || !slices.Equal(p.Recovered, []string{"data"}) || !slices.Equal(p.Emptied, []string{"tmp"}) {
		t.Fatalf("provision %+v", p)
	}
	pod := &corev1.Pod{Spec: *old.Spec.DeepCopy()}
	p.Attach(pod, "ddddd")
	for _, volume := range pod.Spec.Volumes {
		switch {
		case volume.Name == "tmp" && volume.EmptyDir == nil,
			volume.Name == "data" && (volume.PersistentVolumeClaim == nil ||
				volume.PersistentVolumeClaim.ClaimName != "data-web-ddddd"):
			t.Errorf("volume %+v", volume)
		}
	}
	made := p.Missing("ddddd", named())[1]
	if made.Name != "data-web-ddddd" || *made.Spec.StorageClassName != "young" || made.Spec.VolumeName != "" ||
		young.Spec.VolumeName == "" {
		t.Errorf("made %+v", made)
	}
	if text := p.Message(); !strings.Contains(text, "mounts data") || !strings.Contains(text, "mounts tmp") {
		t.Errorf("message %q", text)
	}
	if len(s.Templates) != 1 {
		t.Error("the set's templates have grown")
	}

	for name, hash := range map[string]string{"the newest revision": volumes.Hash(s.Templates),
		"a revision that never had claims": ""} {
		if p := s.For(old, hash, claims); len(p.Templates) != 1 || len(p.Emptied) > 0 || p.Message() != "" {
			t.Errorf("%s gets %+v", name, p)
		}
	}
}

func TestChanged(t *testing.T) {
	s := newSet(claimTemplate("data", "1Gi"))
	resized := newSet(claimTemplate("data", "2Gi"))
	class, mode, modes := claimTemplate("data", "1Gi"), claimTemplate("data", "1Gi"), claimTemplate("data", "1Gi")
	class.Spec.StorageClassName, mode.Spec.VolumeMode = new("fast"), new(corev1.PersistentVolumeBlock)
	modes.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	same := claimTemplate("data", "1024Mi")
	same.Spec.VolumeMode, same.Spec.StorageClassName = new(corev1.PersistentVolumeFilesystem), new("std")
	tests := []struct {
		name string
		now  volumes.Set
		want string
	}{
		{"nothing", s, ""},
		{"other words for the same", newSet(same), ""},
		{"added", newSet(claimTemplate("data", "1Gi"), claimTemplate("log", "1Gi")), "log: added"},
		{"removed", newSet(), "data: removed"},
		{"renamed", newSet(claimTemplate("log", "1Gi")), "data: removed, log: added"},
		{"size", resized, "data: size"},
		{"class", newSet(class), "data: changed"},
		{"mode", newSet(mode), "data: changed"},
		{"access", newSet(modes), "data: changed"},
	}
	adopted := newPod(s, "zzzzz")
	adopted.Labels = nil
	pods := []*corev1.Pod{newPod(s, "aaaaa"), newPod(s, "bbbbb"), adopted}
	claims := []*corev1.PersistentVolumeClaim{newClaim(s, "data", "aaaaa", 0), newClaim(s, "data", "bbbbb", 0)}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			change := tt.now.Changed(pods, claims)
			text := change.Message(false)
			if tt.want == "" {
				if change.Pods != 0 || text != "" {
					t.Errorf("%+v: %q", change, text)
				}
				return
			}
			want := "volumeClaimTemplates changed (" + tt.want +
				"): 2 pods keep the claims they were made with; the templates are used for new pods; delete a pod to give it new " +
				"claims"
			if text != want {
				t.Errorf("%q", text)
			}
			if text := change.Message(true); !strings.Contains(text, v1beta1.LabelSpecifiedDelete) {
				t.Errorf("with reuse: %q", text)
			}
		})
	}
	// Pods of several times are told alike in any order.
	mixed := []*corev1.PersistentVolumeClaim{claims[0], claims[1].DeepCopy()}
	mixed[1].Spec.AccessModes = modes.Spec.AccessModes
	mixed[1].Spec.Resources = resized.Templates[0].Spec.Resources
	forth := resized.Changed([]*corev1.Pod{pods[0], pods[1]}, mixed)
	if back := resized.Changed([]*corev1.Pod{pods[1], pods[0]}, mixed); forth.Pods != 2 ||
		back.Message(false) != forth.Message(false) {
		t.Errorf("%+v and %+v", forth, back)
	}
	// A claim that somebody resized to the new size has what the template asks for.
	grown := claims[0].DeepCopy()
	grown.Spec.Resources = resized.Templates[0].Spec.Resources
	if change := resized.Changed(pods[:1], []*corev1.PersistentVolumeClaim{grown}); change.Pods != 0 {
		t.Errorf("%+v", change)
	}
	if text := resized.Changed(pods[:1], claims).Message(false); !strings.Contains(text,
		"1 pod keeps the claims it was made with") {
		t.Errorf("%q", text)
	}
}

func TestSource(t *testing.T) {
	s := newSet()
	bare := ofPod(newClaim(s, "scratch", "aaaaa", 0), "aaaaa")
	bare.Labels = nil // a generic ephemeral volume's claim has no instance id
	both := newClaim(s, "data", "ddddd", 0)
	both.OwnerReferences = append(both.OwnerReferences,
		metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", UID: "pod-aaaaa"})
	other := newClaim(s, "data", "ccccc", 0)
	other.OwnerReferences[0].UID = "other"
	source, err := sourceOf(newClaim(s, "data", "aaaaa", 0), ofPod(newClaim(s, "log", "aaaaa", 0), "aaaaa"), bare, both,
		other,
		ofPod(newClaim(s, "data", "eeeee", 0), "eeeee"), going(newClaim(s, "data", "fffff", 0)))
	if err != nil {
		t.Fatal(err)
	}
	claims, err := source.Observe("set", podset.Set{Terminating: []*corev1.Pod{newPod(s, "aaaaa")}})
	var names []string
	for _, claim := range claims {
		names = append(names, claim.Name)
	}
	slices.Sort(names)
	if want := []string{"data-web-aaaaa", "data-web-ddddd", "data-web-fffff", "log-web-aaaaa"}; err != nil ||
		!slices.Equal(names, want) {
		t.Errorf("observed %v, %v", names, err)
	}
	if seen := source.Get(types.NamespacedName{Namespace: "shop", Name: "data-web-fffff"}); !seen.Present ||
		!seen.Deleting || seen.ResourceVersion != "1" {
		t.Errorf("seen %+v", seen)
	}
	if seen := source.Get(types.NamespacedName{Namespace: "shop", Name: "x"}); seen.Present {
		t.Errorf("seen %+v", seen)
	}
	if source.Named("shop")("data-web-ccccc") != other || source.Named("bar")("data-web-ccccc") != nil {
		t.Error("a claim of a name is found in its namespace, whoever it belongs to")
	}
	if !source.Taken("shop", "ccccc") || source.Taken("shop", "xxxxx") || source.Taken("bar", "ccccc") {
		t.Error("an id is taken where a claim has it")
	}
}
