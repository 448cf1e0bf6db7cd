package apply

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
)

const manifest = `{"apiVersion":"apps.kruise.io/v1beta1","kind":"CloneSet","metadata":{"name":"web","namespace":"shop","labels":{"app":"web"},"uid":"of-the-hub"},"spec":{"replicas":3},"status":{"replicas":9}}`

func order(sequence, manifest string) *work.Work {
	return &work.Work{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{topology.AnnotationHubID: "hub",
			topology.AnnotationSequence: sequence}},
		Spec: work.WorkSpec{Workload: work.WorkloadTemplate{Manifests: []work.Manifest{{RawExtension: runtime.RawExtension{Raw: []byte(manifest)}}}}},
	}
}

func TestParseOrder(t *testing.T) {
	o, err := ParseOrder(order("7", manifest))
	if err != nil {
		t.Fatal(err)
	}
	if got := o.Ref.String(); got != "CloneSet shop/web" {
		t.Errorf("the order is for %s", got)
	}
	if Owner(o.Desired) != "hub" || CarriedOut(o.Desired) != 7 || o.Desired.GetLabels()["app"] != "web" {
		t.Errorf("labels %v, annotations %v: want the user's and our marks", o.Desired.GetLabels(),
			o.Desired.GetAnnotations())
	}
	if _, ok := o.Desired.Object["status"]; ok || o.Desired.GetUID() != "" {
		t.Error("status and uid of the hub's object are not for the member")
	}
	same, err := ParseOrder(order("7", manifest))
	if err != nil || same.Hash != o.Hash {
		t.Errorf("the same order has another hash (%v)", err)
	}
	next, err := ParseOrder(order("8", manifest))
	if err != nil || next.Hash == o.Hash {
		t.Errorf("another sequence has the same hash (%v)", err)
	}
}

func TestParseOrderRefuses(t *testing.T) {
	foreign := order("1", manifest)
	delete(foreign.Annotations, topology.AnnotationHubID)
	two := order("1", manifest)
	two.Spec.Workload.Manifests = append(two.Spec.Workload.Manifests, two.Spec.Workload.Manifests...)
	cases := []struct {
		name, says string
		work       *work.Work
	}{
		{"no hub", topology.AnnotationHubID, foreign},
		{"no sequence", topology.AnnotationSequence, order("", manifest)},
		{"a sequence in words", `"one"`, order("one", manifest)},
		{"two manifests", "2 manifests", two},
		{"not an object", "cannot be read", order("1", `[1]`)},
		{"no kind", "lacks apiVersion, kind", order("1", `{"metadata":{"name":"x"}}`)},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			_, err := ParseOrder(tc.work)
			if err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("error %v does not say %q", err, tc.says)
			}
		})
	}
}

func TestDecide(t *testing.T) {
	now := time.Unix(1000, 0)
	o, err := ParseOrder(order("5", manifest))
	if err != nil {
		t.Fatal(err)
	}
	claim, err := ParseOrder(order("5", `{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"data","namespace":"shop"},"spec":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	live := func(change ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
		object := o.Desired.DeepCopy()
		object.SetUID("u1")
		object.SetGeneration(2)
		object.SetResourceVersion("20")
		for _, c := range change {
			c(object)
		}
		return object
	}
	label := func(key, value string) func(*unstructured.Unstructured) {
		return func(u *unstructured.Unstructured) {
			labels := u.GetLabels()
			if value == "" {
				delete(labels, key)
			} else {
				labels[key] = value
			}
			u.SetLabels(labels)
		}
	}
	sequence := func(s string) func(*unstructured.Unstructured) {
		return func(u *unstructured.Unstructured) {
			u.SetAnnotations(map[string]string{topology.AnnotationSequence: s})
		}
	}
	at := func(generation int64, version string) func(*unstructured.Unstructured) {
		return func(u *unstructured.Unstructured) { u.SetGeneration(generation); u.SetResourceVersion(version) }
	}
	going := func(u *unstructured.Unstructured) { u.SetDeletionTimestamp(&metav1.Time{Time: now}) }
	done := Memory{Applied: true, Hash: o.Hash, UID: "u1", Generation: 2, Version: "20", At: now.Add(-time.Minute),
		Seen: true}
	with := func(change func(*Memory)) Memory { m := done; change(&m); return m }

	cases := []struct {
		name  string
		facts Facts
		want  Action
	}{
		{"nothing stands", Facts{}, Create},
		{"first look after a restart", Facts{Live: live()}, Update},
		{"it stands as applied", Facts{Live: live(), Memory: done}, Nothing},
		{"its status changed", Facts{Live: live(at(2, "30")), Memory: done}, Nothing},
		{"someone changed its spec", Facts{Live: live(at(3, "30")), Memory: done}, Update},
		{"someone changed our label", Facts{Live: live(at(2, "30"), label("app", "x")), Memory: done}, Update},
		{"someone removed our label", Facts{Live: live(at(2, "30"), label("app", "")), Memory: done}, Update},
		{"someone added a label", Facts{Live: live(at(2, "30"), label("extra", "x")), Memory: done}, Nothing},
		{"the cache lags behind our write", Facts{Live: live(at(1, "10"), label("app", "x")), Memory: done}, Nothing},
		{"it was made anew by someone", Facts{Live: live(func(u *unstructured.Unstructured) { u.SetUID("u2") }, at(2, "30")),
			Memory: done}, Update},
		{"it was deleted", Facts{Memory: done}, Create},
		{"we wrote it and the cache has not shown it", Facts{Memory: with(func(m *Memory) { m.Seen, m.At = false, now })},
			Wait},
		{"the cache had its time to show it", Facts{Memory: with(func(m *Memory) { m.Seen = false })}, Create},
		{"a kind without generations, unchanged", Facts{Live: live(at(0, "20")),
			Memory: with(func(m *Memory) { m.Generation = 0 })}, Nothing},
		{"a kind without generations, changed", Facts{Live: live(at(0, "21")),
			Memory: with(func(m *Memory) { m.Generation = 0 })}, Update},
		{"a new order", Facts{Live: live(), Memory: with(func(m *Memory) { m.Hash = 1 })}, Update},
		{"an older order than the one that stands", Facts{Live: live(sequence("6"))}, Outdated},
		{"a newer order", Facts{Live: live(sequence("4"))}, Update},
		{"no mark", Facts{Live: live(label(topology.LabelHub, ""))}, Conflict},
		{"another hub's mark", Facts{Live: live(label(topology.LabelHub, "other"))}, Conflict},
		{"an older sequence of another hub is a conflict all the same",
			Facts{Live: live(label(topology.LabelHub, "other"), sequence("9"))}, Conflict},
		{"a claim that stands", Facts{Order: claim, Live: live()}, Keep},
		{"a claim that someone else made", Facts{Order: claim, Live: live(label(topology.LabelHub, ""))}, Keep},
		{"a claim that is missing", Facts{Order: claim}, Create},
		{"a claim whose Work goes", Facts{Order: claim, Deleting: true, Live: live()}, Release},
		{"a claim of someone else whose Work goes", Facts{Order: claim, Deleting: true,
			Live: live(label(topology.LabelHub, ""))}, Finish},
		{"someone deletes it, a finalizer holds it", Facts{Live: live(going)}, Nothing},
		{"it was refused a moment ago", Facts{Live: live(), Memory: Memory{Refused: o.Hash, RetryAt: now.Add(time.Second)}},
			Wait},
		{"it was refused long ago", Facts{Live: live(), Memory: Memory{Refused: o.Hash, RetryAt: now}}, Update},
		{"another order was refused", Facts{Live: live(), Memory: Memory{Refused: 1, RetryAt: now.Add(time.Second)}}, Update},
		{"suspended", Facts{Suspended: true}, Nothing},
		{"suspended and changed", Facts{Suspended: true, Live: live(at(3, "30")), Memory: done}, Nothing},
		{"deleted on the hub", Facts{Deleting: true, Live: live(), Memory: done}, Delete},
		{"deleted on the hub while suspended", Facts{Deleting: true, Suspended: true, Live: live()}, Delete},
		{"deleted on the hub, refused before", Facts{Deleting: true, Live: live(),
			Memory: Memory{Refused: o.Hash, RetryAt: now.Add(time.Hour)}}, Delete},
		{"deleted on the hub, on its way out", Facts{Deleting: true, Live: live(going)}, Nothing},
		{"deleted on the hub, gone", Facts{Deleting: true, Memory: done}, Finish},
		{"deleted on the hub, not ours", Facts{Deleting: true, Live: live(label(topology.LabelHub, ""))}, Finish},
		{"deleted on the hub, another hub's", Facts{Deleting: true, Live: live(label(topology.LabelHub, "other"))}, Finish},
		{"deleted on the hub, to be kept", Facts{Deleting: true, Preserve: true, Live: live()}, Release},
		{"deleted on the hub, a newer order stands", Facts{Deleting: true, Live: live(sequence("6"))}, Delete},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			tc.facts.Now = now
			if tc.facts.Order == nil {
				tc.facts.Order = o
			}
			got := Decide(tc.facts)
			if got.Action != tc.want {
				t.Errorf("action is %s, want %s", got.Action, tc.want)
			}
			if (got.Action == Wait) != (got.After > 0) {
				t.Errorf("%s after %s", got.Action, got.After)
			}
		})
	}
}

// TestDecideAdoption: what stands without a mark is taken over only as the hub knows it.
func TestDecideAdoption(t *testing.T) {
	object := func(change ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
		o, err := ParseOrder(order("5", manifest))
		if err != nil {
			t.Fatal(err)
		}
		live := o.Desired
		live.SetLabels(nil)
		if err := unstructured.SetNestedField(live.Object, int64(3), "spec", "replicas"); err != nil {
			t.Fatal(err)
		}
		for _, c := range change {
			c(live)
		}
		return live
	}
	hub := func(id string) func(*unstructured.Unstructured) {
		return func(u *unstructured.Unstructured) { u.SetLabels(map[string]string{topology.LabelHub: id}) }
	}
	owned := func(u *unstructured.Unstructured) {
		u.SetOwnerReferences([]metav1.OwnerReference{{Kind: "UnitedDeployment", Name: "web", Controller: new(true)}})
	}
	going := func(u *unstructured.Unstructured) { u.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1, 0)}) }
	newer := func(u *unstructured.Unstructured) {
		u.SetAnnotations(map[string]string{topology.AnnotationSequence: "6"})
	}
	cases := []struct {
		name, adopt string
		live        *unstructured.Unstructured
		deleting    bool
		want        Action
	}{
		{"asked, nothing stands", "look", nil, false, Look},
		{"asked, something stands", "look", object(), false, Look},
		{"asked, it is ours", "look", object(hub("hub")), false, Look},
		{"asked, it is another hub's", "look", object(hub("other")), false, Conflict},
		{"asked, another controller owns it", "look", object(owned), false, Conflict},
		{"known as it is", "3", object(), false, Adopt},
		{"known otherwise", "4", object(), false, Look},
		{"known to have nothing, and something stands", "0", object(), false, Look},
		{"known to have nothing", "0", nil, false, Create},
		{"known as it is, another hub's", "3", object(hub("other")), false, Conflict},
		{"known as it is, another controller owns it", "3", object(owned), false, Conflict},
		{"known as it is, on its way out", "3", object(going), false, Conflict},
		{"the Work goes", "3", object(), true, Finish},
		{"not to be adopted", "", object(), false, Conflict},
		{"an orphan, known as it is", "3", object(hub("hub")), false, Adopt},
		{"an orphan, known otherwise", "4", object(hub("hub")), false, Look},
		{"an orphan that another controller owns", "3", object(hub("hub"), owned), false, Conflict},
		{"an orphan on its way out", "3", object(hub("hub"), going), false, Nothing},
		{"an orphan of a newer order", "3", object(hub("hub"), newer), false, Outdated},
		{"an orphan that is not to be adopted", "", object(hub("hub")), false, Update},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			w := order("5", manifest)
			w.Annotations[topology.AnnotationAdopt] = tc.adopt
			o, err := ParseOrder(w)
			if err != nil {
				t.Fatal(err)
			}
			if got := Decide(Facts{Order: o, Live: tc.live, Deleting: tc.deleting}); got.Action != tc.want {
				t.Errorf("action is %s, want %s", got.Action, tc.want)
			}
			if got := Decide(Facts{Order: o, Live: tc.live, Ordered: true}); tc.adopt == "4" && Owner(tc.live) == "hub" &&
				got.Action != Update {
				t.Errorf("with an order before, action is %s, want %s", got.Action, Update)
			}
		})
	}
}

func TestOutcomesTellOnlyNews(t *testing.T) {
	o := NewOutcomes()
	calls := 0
	o.subscribers = append(o.subscribers, func(types.NamespacedName) { calls++ })
	first := Outcome{WorkUID: "w", Generation: 1, Sequence: 1, Applied: true, At: time.Unix(1, 0)}
	again := first
	again.At = time.Unix(2, 0)
	o.set(types.NamespacedName{Name: "x"}, first)
	o.set(types.NamespacedName{Name: "x"}, again)
	if got, _ := o.Get(types.NamespacedName{Name: "x"}); calls != 1 || got.At != first.At {
		t.Errorf("%d calls, first outcome at %s: a repeated outcome is no news", calls, got.At)
	}
	again.Generation = 2
	o.set(types.NamespacedName{Name: "x"}, again)
	if got, _ := o.Get(types.NamespacedName{Name: "x"}); calls != 2 || got.At != again.At {
		t.Errorf("%d calls, first outcome at %s: a new generation is news", calls, got.At)
	}
}
