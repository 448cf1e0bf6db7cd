package marks_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/marks"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/revision"
)

// TestPublishedForm pins what other tools read on pods.
func TestPublishedForm(t *testing.T) {
	annotations := map[string]string{"other": "a"}
	at := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	for _, set := range []string{"b", "a"} {
		record := marks.Record{UpdateTimestamp: at, Hash: "h" + set, SidecarSet: set, Sidecars: []string{"x", "y"},
			Revision: set + "-1"}
		if err := marks.Inject(annotations, record, "w"+set); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]string{
		"other":                              "a",
		v1beta1.AnnotationSidecarSetInjected: "a,b",
		v1beta1.AnnotationSidecarSetHash: `{"a":{"updateTimestamp":"2026-01-02T03:04:05Z","hash":"ha","sidecarSetName":"a",` +
			`"sidecarList":["x","y"],"controllerRevision":"a-1"},"b":{"updateTimestamp":"2026-01-02T03:04:05Z","hash":"hb",` +
			`"sidecarSetName":"b","sidecarList":["x","y"],"controllerRevision":"b-1"}}`,
		v1beta1.AnnotationSidecarSetHashWithoutImage: `{"a":{"updateTimestamp":"2026-01-02T03:04:05Z","hash":"wa",` +
			`"sidecarSetName":"a","sidecarList":["x","y"]},"b":{"updateTimestamp":"2026-01-02T03:04:05Z","hash":"wb",` +
			`"sidecarSetName":"b","sidecarList":["x","y"]}}`,
	}
	if !maps.Equal(annotations, want) {
		t.Errorf("got  %v\nwant %v", annotations, want)
	}
	marks.Clear(annotations)
	if !maps.Equal(annotations, map[string]string{"other": "a"}) {
		t.Errorf("left %v", annotations)
	}
}

func TestOldAndHostileForms(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":"old"}`:            "old",
		`{"a":{"hash":"new"}}`:   "new",
		`{"a":5,"b":"x"}`:        "",
		`{"a":null}`:             "",
		`null`:                   "",
		`[`:                      "",
		`{"a":{"hash":["new"]}}`: "",
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Annotations: map[string]string{v1beta1.AnnotationSidecarSetHash: text}}}
		if got, _ := marks.Of(pod, "a"); got != (revision.Hashes{All: want}) {
			t.Errorf("%s: %v, want %q", text, got, want)
		}
		if err := marks.Put(pod.Annotations, v1beta1.AnnotationSidecarSetHash, "c", marks.Record{Hash: "c"}); err != nil {
			t.Error(err)
		}
		if got, _ := marks.Of(pod, "c"); got.All != "c" {
			t.Errorf("%s: after a write %v", text, got)
		}
	}
}

func TestNames(t *testing.T) {
	hot := v1beta1.SidecarContainer{Container: corev1.Container{Name: "hot"}}
	hot.UpgradeStrategy.UpgradeType = v1beta1.SidecarContainerHotUpgrade
	native := v1beta1.SidecarContainer{Container: corev1.Container{Name: "native",
		RestartPolicy: new(corev1.ContainerRestartPolicyAlways)}}
	init := v1beta1.SidecarContainer{Container: corev1.Container{Name: "init"}}
	got := marks.Names(&v1beta1.SidecarSetSpec{
		Containers:     []v1beta1.SidecarContainer{{Container: corev1.Container{Name: "z"}}, hot},
		InitContainers: []v1beta1.SidecarContainer{init, native},
	})
	if want := []string{"hot-1", "hot-2", "native", "z"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
