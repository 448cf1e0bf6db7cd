package handover

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

func TestNamesOfValues(t *testing.T) {
	for _, test := range []struct{ key, name, variable string }{
		{"role", "role", "FLOTILLA_HANDOVER_ROLE"},
		{"db.example.com/checkpoint", "checkpoint", "FLOTILLA_HANDOVER_CHECKPOINT"},
		{"a/last-Backup.id_2", "last-Backup.id_2", "FLOTILLA_HANDOVER_LAST_BACKUP_ID_2"},
		{"a/0", "0", "FLOTILLA_HANDOVER_0"},
	} {
		if name := Name(test.key); name != test.name || Variable(name) != test.variable {
			t.Errorf("%s has the name %s and the variable %s", test.key, name, Variable(name))
		}
	}
}

func TestPickTakesNamedValues(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Labels: map[string]string{"role": "leader", "app": "db"},
		Annotations: map[string]string{"db/checkpoint": "7", "empty": "", "role": "not this",
			"handover.flotilla.dev/checkpoint": "3", "handover.flotilla.dev/backup": "b1", "handover.flotilla.dev/x": "x"},
	}}
	asked := &topology.HandOver{Labels: []string{"role"},
		Annotations: []string{"db/checkpoint", "db/backup", "empty", "no"}}
	want := map[string]string{"role": "leader", "checkpoint": "7", "backup": "b1", "empty": ""}
	if diff := cmp.Diff(want, Pick(asked, pod)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !Received(pod) || Received(&corev1.Pod{}) {
		t.Error("a pod that received values is not known by its annotations")
	}
}

func TestValuesOfAPodAreCut(t *testing.T) {
	long := func(n int) string { return strings.Repeat("x", n) }
	for name, test := range map[string]struct {
		values, want map[string]string
	}{
		"all fit":                  {map[string]string{"a": long(511)}, map[string]string{"a": long(511)}},
		"one byte too many":        {map[string]string{"a": long(512)}, map[string]string{"a": long(511)}},
		"between two characters":   {map[string]string{"a": long(510) + "é"}, map[string]string{"a": long(510)}},
		"behind a character":       {map[string]string{"a": long(509) + "éé"}, map[string]string{"a": long(509) + "é"}},
		"the first names go first": {map[string]string{"b": "1", "a": long(600)}, map[string]string{"a": long(511)}},
		"the next one is cut": {map[string]string{"b": long(300), "a": long(300)},
			map[string]string{"a": long(300), "b": long(210)}},
		"no room for any of it": {map[string]string{"a": long(510), "b": "1"}, map[string]string{"a": long(510)}},
	} {
		t.Run(name, func(t *testing.T) {
			got := Fit([]topology.OrdinalValues{{Ordinal: 4, Values: test.values}})
			if diff := cmp.Diff(test.want, got.Pods[0].Values); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			cut := ""
			if !maps.Equal(test.want, test.values) {
				cut = "4"
			}
			if got.Cut != cut {
				t.Errorf("cut %q, want %q", got.Cut, cut)
			}
			if again := Fit(got.Pods); again.Cut != "" || !cmp.Equal(again.Pods, got.Pods) {
				t.Errorf("what is cut is cut again: %+v", again)
			}
		})
	}
}

func TestValuesOfAllPodsAreCut(t *testing.T) {
	var pods []topology.OrdinalValues
	for i := range int32(100) {
		pods = append(pods, topology.OrdinalValues{Ordinal: i, Values: map[string]string{"a": strings.Repeat("x", 500)}})
	}
	got := Fit(pods)
	size := len(Give(got.Pods))
	if size > MaxAll || size < MaxAll-1000 || got.Cut != fmt.Sprintf("%d-99", len(got.Pods)) {
		t.Errorf("%d pods in %d bytes, cut %q", len(got.Pods), size, got.Cut)
	}
	small := []topology.OrdinalValues{{Ordinal: 7}, {Ordinal: 8, Values: map[string]string{}}}
	if got := Fit(small); got != nil {
		t.Errorf("no values are %+v", got)
	}
}

func TestRanges(t *testing.T) {
	var odd []int32
	for i := range int32(20) {
		odd = append(odd, 2*i+1)
	}
	for _, test := range []struct {
		ordinals []int32
		want     string
	}{
		{nil, ""}, {[]int32{3}, "3"}, {[]int32{3, 1000, 1001, 1002}, "3, 1000-1002"}, {[]int32{0, 1, 5}, "0-1, 5"},
		{odd, "1, 3, 5, 7, 9, 11, 13, 15, 17, 19 and 10 more"},
	} {
		if got := Ranges(test.ordinals); got != test.want {
			t.Errorf("%v are %q, want %q", test.ordinals, got, test.want)
		}
	}
}

func TestAnnotationsAreReadAsWritten(t *testing.T) {
	h := &topology.HandOver{Labels: []string{"role"}, Annotations: []string{"db/checkpoint"},
		Status: []topology.HandOverStatus{{Name: "a", JSONPath: "{.status.a}"}}}
	work := &metav1.ObjectMeta{Annotations: map[string]string{topology.AnnotationHandOver: Ask(h)}}
	if got := Asked(work); !slices.Equal(got.Labels, h.Labels) || !slices.Equal(got.Annotations, h.Annotations) ||
		got.Status != nil {
		t.Errorf("asked %+v", got)
	}
	if Ask(nil) != "" || Ask(&topology.HandOver{Status: h.Status}) != "" || Asked(&metav1.ObjectMeta{}) != nil {
		t.Error("members are asked for nothing")
	}
	set := &metav1.ObjectMeta{Namespace: "shop", Name: "db"}
	if given, err := Given(set); given != nil || err != nil {
		t.Errorf("%v, %v without an annotation", given, err)
	}
	values := map[string]string{"checkpoint": "7"}
	pods := []topology.OrdinalValues{{Ordinal: 3, Values: values}}
	set.Annotations = map[string]string{topology.AnnotationHandedOver: Give(pods)}
	if given, err := Given(set); err != nil || !maps.Equal(given[3], values) || len(given) != 1 {
		t.Errorf("%v, %v", given, err)
	}
	set.Annotations[topology.AnnotationHandedOver] = "{"
	if _, err := Given(set); err == nil || !strings.Contains(err.Error(), "shop/db") {
		t.Errorf("%v", err)
	}
}
