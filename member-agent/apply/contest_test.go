package apply

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/objects"
)

// TestCase15PausesGrow: the third correction within a minute makes an object contested, and the pauses between
// corrections grow up to a minute.
func TestCase15PausesGrow(t *testing.T) {
	start := time.Unix(1000, 0)
	for _, tc := range []struct {
		name string
		// at are the times of corrections in seconds, want the pauses after them.
		at, want []int
		// contested until so many seconds, 0 for never.
		until int
	}{
		{"two in a minute", []int{0, 10}, []int{0, 0}, 0},
		{"three over more than a minute", []int{0, 30, 61}, []int{0, 0, 0}, 0},
		{"three in a minute", []int{0, 1, 59}, []int{0, 0, 5}, 59 + 5 + 60},
		{"it goes on", []int{0, 1, 2, 7, 17, 37, 77, 137}, []int{0, 0, 5, 10, 20, 40, 60, 60}, 137 + 60 + 60},
		{"it goes on after a pause of less than a minute", []int{0, 1, 2, 60}, []int{0, 0, 5, 10}, 60 + 10 + 60},
		{"it begins again after it was over", []int{0, 1, 2, 100, 101, 102}, []int{0, 0, 5, 0, 0, 5}, 102 + 5 + 60},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var c contest
			for i, at := range tc.at {
				if got := c.add(start.Add(time.Duration(at) * time.Second)); got != time.Duration(tc.want[i])*time.Second {
					t.Errorf("correction %d waits %s, want %d s", i, got, tc.want[i])
				}
			}
			end := start.Add(time.Duration(tc.until) * time.Second)
			if tc.until == 0 {
				end = start.Add(time.Duration(tc.at[len(tc.at)-1]) * time.Second)
			} else if !c.active(end.Add(-time.Second)) {
				t.Error("it is over too soon")
			}
			if c.active(end) {
				t.Error("it is not over")
			}
		})
	}
}

func TestContestNamesTheWriterOnce(t *testing.T) {
	var c contest
	c.name("hpa", "spec.replicas", "it is 5")
	c.name("hpa", "spec.replicas", "it is 6")
	if c.message != "it is 5" {
		t.Errorf("message %q: another value of the same field is no news", c.message)
	}
	c.name("kubectl", "spec.replicas", "it is 7")
	if c.message != "it is 7" {
		t.Errorf("message %q: another writer is news", c.message)
	}
}

func TestForeignContentIsOfAnotherGeneration(t *testing.T) {
	g := NewGenerations()
	ref := objects.Ref{GroupVersionKind: apps.CloneSetKind,
		NamespacedName: types.NamespacedName{Namespace: "shop", Name: "web"}}
	at := func(uid types.UID, generation int64) client.Object {
		u := &unstructured.Unstructured{}
		u.SetNamespace("shop")
		u.SetName("web")
		u.SetUID(uid)
		u.SetGeneration(generation)
		return u
	}
	expect := func(what string, uid types.UID, generation int64, want bool) {
		t.Helper()
		if got := g.Foreign(apps.CloneSetKind, at(uid, generation)); got != want {
			t.Errorf("%s: foreign %t", what, got)
		}
	}
	expect("nothing is known", "a", 1, false)
	g.accept(ref, "a", 3)
	expect("as accepted", "a", 3, false)
	expect("changed by somebody", "a", 4, true)
	expect("not seen yet", "a", 2, true)
	expect("another object", "b", 1, false)
	if g.Foreign(apps.UnitedDeploymentKind, at("a", 4)) {
		t.Error("another kind of that name is not foreign")
	}
	g.forget(ref)
	expect("not corrected any more", "a", 4, false)
}

func TestMessagesLeaveTheObjectOut(t *testing.T) {
	for in, want := range map[string]string{
		`configmaps "x" is forbidden: no`: `configmaps "x" is forbidden: no`,
		` "" is invalid: patch: Invalid value: "{\"data\":{\"password\":\"a\\\": b\"}}": strict decoding error: unknown field "spec.x"`: `strict decoding error: unknown field "spec.x"`,
		`Secret "x" is invalid: patch: Invalid value: "{\"data\":`:                                                                      `Secret "x" is invalid: the patch is invalid`,
	} {
		if got := withoutObject(in); got != want {
			t.Errorf("%s becomes %q, want %q", in, got, want)
		}
	}
}
