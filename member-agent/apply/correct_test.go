package apply

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-logr/logr/testr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/copies"
	"github.com/flotilla-dev/flotilla/member-agent/objects"
)

// attempts is a reconciler that carries out one Work, with what it says and what it allows to workload controllers.
type attempts struct {
	*Reconciler
	t    *testing.T
	w    *work.Work
	memo *memo
	clk  *clocktesting.FakePassiveClock
	// patch changes what the member's API server does with a patch, nil for nothing.
	patch func(object client.Object) error
	// reasons are the outcomes that listeners were told, oldest first; foreign reports for each whether workload
	// controllers were kept from acting on the object then.
	reasons []string
	foreign []bool
}

// newAttempts returns a reconciler whose order was carried out.
func newAttempts(t *testing.T, manifest string) *attempts {
	t.Helper()
	a := &attempts{t: t, clk: clocktesting.NewFakePassiveClock(time.Unix(1000, 0))}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	member := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).WithReturnManagedFields().Build(),
		interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
				object.SetUID("u")
				object.SetGeneration(1)
				return c.Create(ctx, object, options...)
			},
			Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch,
				options ...client.PatchOption) error {
				if a.patch != nil {
					if err := a.patch(object); err != nil {
						return err
					}
				}
				return c.Patch(ctx, object, patch, options...)
			},
		})
	a.Reconciler = &Reconciler{
		Options: Options{
			Outcomes: NewOutcomes(), Generations: NewGenerations(), Clock: a.clk,
			Copies: copies.New(copies.Options{Writer: member, Reader: member, Namespace: "flotilla-system", ClusterName: "east",
				Log: testr.New(t)}),
		},
		member: member, reader: member, events: events.NewFakeRecorder(100),
		waiting: newWaiting(), works: map[types.NamespacedName]*memo{},
	}
	a.w = order("5", manifest)
	a.w.Namespace, a.w.Name, a.w.UID, a.w.Generation = "karmada-es-east", "shop.web", "w", 1
	a.memo = a.recall(client.ObjectKeyFromObject(a.w), a.w)
	if a.memo.orderErr != nil {
		t.Fatal(a.memo.orderErr)
	}
	a.attempt(nil)
	a.Outcomes.subscribers = append(a.Outcomes.subscribers, func(name types.NamespacedName) {
		a.reasons = append(a.reasons, a.Outcomes.byWork[name].Reason) // the caller holds the lock
		a.foreign = append(a.foreign, a.isForeign())
	})
	return a
}

func (a *attempts) live() *unstructured.Unstructured {
	a.t.Helper()
	live := shell(a.memo.order.Desired)
	if err := a.member.Get(a.t.Context(), client.ObjectKeyFromObject(live), live); err != nil {
		a.t.Fatal(err)
	}
	return live
}

// attempt writes the order once.
func (a *attempts) attempt(live *unstructured.Unstructured) time.Duration {
	a.t.Helper()
	action := Update
	if live == nil {
		action = Create
	}
	result, err := a.write(a.t.Context(), a.w, a.memo,
		Facts{Order: a.memo.order, Live: live, Memory: a.memo.Memory, Now: a.clk.Now()}, action)
	if err != nil {
		a.t.Fatal(err)
	}
	return result.RequeueAfter
}

// overwrite lets another writer change the object.
func (a *attempts) overwrite(change func(*unstructured.Unstructured)) {
	a.t.Helper()
	live := a.live()
	change(live)
	live.SetGeneration(live.GetGeneration() + 1)
	if err := a.member.Update(a.t.Context(), live, client.FieldOwner("operator-x")); err != nil {
		a.t.Fatal(err)
	}
}

func (a *attempts) isForeign() bool {
	return a.Generations.Foreign(a.memo.order.Ref.GroupVersionKind, a.live())
}

const settings = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"settings","namespace":"shop","labels":{"team":"x"}},"data":{"key":"1"}}`

// set returns a change of a key of a ConfigMap.
func set(key, value string) func(*unstructured.Unstructured) {
	return func(u *unstructured.Unstructured) {
		if err := unstructured.SetNestedField(u.Object, value, "data", key); err != nil {
			panic(err) // the data is an object
		}
	}
}

func refusal(object client.Object) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, object.GetName(), nil)
}

func TestRefusedCorrectionHasOneReason(t *testing.T) {
	a := newAttempts(t, settings)
	a.overwrite(set("theirs", "1"))
	if !a.isForeign() {
		t.Fatal("the controllers may act on content that was not ordered")
	}
	a.patch = refusal
	for range 3 {
		a.attempt(a.live())
		a.clk.SetTime(a.clk.Now().Add(retryMost))
	}
	if want := []string{work.ReasonOverwritten}; !slices.Equal(a.reasons, want) {
		t.Errorf("outcomes %v, want %v: each one is a write on the hub", a.reasons, want)
	}
	if !slices.Equal(a.foreign, []bool{true}) || a.isForeign() {
		t.Error("the controllers go on with what stands, after the outcome says that its pods do not count")
	}
	got, _ := a.Outcomes.Get(client.ObjectKeyFromObject(a.w))
	for _, part := range []string{"data.theirs", "operator-x", "forbidden"} {
		if !strings.Contains(got.Message, part) {
			t.Errorf("message %q does not name %s", got.Message, part)
		}
	}

	// The member's API server fails in between: the pods do not count as updated because of that.
	a.patch = func(client.Object) error { return apierrors.NewTooManyRequests("busy", 1) }
	a.attempt(a.live())
	if len(a.reasons) != 1 {
		t.Errorf("outcomes %v after a failure that ends by itself", a.reasons)
	}
	a.patch = nil
	a.attempt(a.live())
	if want := []string{work.ReasonOverwritten, work.ReasonApplied}; !slices.Equal(a.reasons, want) || a.isForeign() {
		t.Errorf("outcomes %v, want %v", a.reasons, want)
	}
}

func TestCorrectionThatCanSucceedSoonKeepsControllersWaiting(t *testing.T) {
	a := newAttempts(t, settings)
	a.overwrite(set("theirs", "1"))
	a.patch = func(client.Object) error { return apierrors.NewInternalError(context.DeadlineExceeded) }
	for i := range failuresTolerated - 1 {
		if a.attempt(a.live()); !a.isForeign() {
			t.Fatalf("the controllers act on content that was not ordered after failure %d", i+1)
		}
	}
	if want := []string{work.ReasonApplyFailed}; !slices.Equal(a.reasons, want) {
		t.Errorf("outcomes %v, want %v", a.reasons, want)
	}
	a.attempt(a.live())
	if want := []string{work.ReasonApplyFailed, work.ReasonOverwritten}; !slices.Equal(a.reasons, want) || a.isForeign() {
		t.Errorf("outcomes %v, want %v: failed pods are to be replaced", a.reasons, want)
	}
}

// TestWriteFromStaleCacheIsRepeated: an autoscaler scaled the object after the cache had shown it.
func TestWriteFromStaleCacheIsRepeated(t *testing.T) {
	a := newAttempts(t, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"shop"},"spec":{"paused":true}}`)
	replicas := func(n int64) func(*unstructured.Unstructured) {
		return func(u *unstructured.Unstructured) {
			if err := unstructured.SetNestedField(u.Object, n, "spec", "replicas"); err != nil {
				t.Fatal(err)
			}
		}
	}
	a.overwrite(replicas(3))
	stale := a.live()
	a.overwrite(replicas(7))
	attempts := 0
	a.patch = func(object client.Object) error {
		if attempts++; attempts == 1 { // as an API server answers a test that fails; the fake client answers otherwise
			return apierrors.NewGenericServerResponse(422, "patch", schema.GroupResource{Resource: "deployments"},
				object.GetName(), "testing value failed", 0, false)
		}
		return nil
	}
	a.attempt(stale)
	if got, _, err := unstructured.NestedInt64(a.live().Object, "spec", "replicas"); err != nil || got != 7 ||
		attempts != 2 {
		t.Errorf("%d replicas after %d attempts (%v), want 7", got, attempts, err)
	}
	if len(a.reasons) != 0 {
		t.Errorf("outcomes %v", a.reasons)
	}
}

func TestNoteOfEventIsCut(t *testing.T) {
	for _, n := range []int{0, maxNote - 1, maxNote, maxNote + 1, 3 * maxNote} {
		for _, letters := range []string{"x", "é", "雲", "x🚢"} {
			message := strings.Repeat(letters, n/len(letters)+1)
			got := noteOf(message)
			if len(got) > maxNote || !utf8.ValidString(got) {
				t.Errorf("%d bytes of %s are cut to %d", len(message), letters, len(got))
			}
			if len(message) <= maxNote && got != message || len(message) > maxNote &&
				(!strings.HasSuffix(got, " …") || len(got) < maxNote-8) {
				t.Errorf("%d bytes of %s become %d bytes", len(message), letters, len(got))
			}
		}
	}
}

// TestEventOfContestedObjectIsTaken: long names and values make the message longer than an API server takes.
func TestEventOfContestedObjectIsTaken(t *testing.T) {
	a := newAttempts(t, settings)
	recorder := events.NewFakeRecorder(10)
	a.events = recorder
	for range contestAfter {
		a.overwrite(func(u *unstructured.Unstructured) {
			for _, key := range []string{"a", "b", "c"} {
				set(key+strings.Repeat("é", 200), strings.Repeat("雲", 100))(u)
			}
		})
		a.attempt(a.live())
	}
	event := <-recorder.Events
	if n := len(event) - len("Warning Overwritten "); n > maxNote || n < maxNote-8 {
		t.Errorf("the note has %d bytes: %s", n, event)
	}
}

// named returns the message of the correction of an object that another writer changes.
func (a *attempts) named(change func(*unstructured.Unstructured)) string {
	a.t.Helper()
	a.overwrite(change)
	c := &correction{}
	a.lookUp(a.t.Context(), a.memo, c, a.live())
	return c.contested(a.memo.order.Ref)
}

func TestContestedLabelIsNamed(t *testing.T) {
	a := newAttempts(t, settings)
	got := a.named(func(u *unstructured.Unstructured) {
		labels := u.GetLabels()
		labels["team"] = "y"
		u.SetLabels(labels)
	})
	if want := `field manager operator-x: metadata.labels.team is "y" (ordered: "x")`; !strings.Contains(got, want) {
		t.Errorf("message %q does not say %q", got, want)
	}
}

// TestAdmittedChangesAreNotBlamed: a webhook adds keys to the object with each write, one of them with a new value.
func TestAdmittedChangesAreNotBlamed(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		a := newAttempts(t, settings)
		answer := a.live()
		set("aaa-webhook", "added")(answer)
		set("aaa-stamp", "1")(answer)
		if err := a.accept(a.memo, answer); err != nil {
			t.Fatal(err)
		}
		if restarted {
			a.memo.admitted = nil
		}
		got := a.named(func(u *unstructured.Unstructured) {
			set("aaa-webhook", "added")(u)
			set("aaa-stamp", "2")(u)
			set("theirs", "1")(u)
		})
		if want := `field manager operator-x: data.theirs is "1" (not ordered), data.aaa-stamp`; !strings.Contains(got,
			want) || strings.Contains(got, "webhook") {
			t.Errorf("restarted: %t: message %q does not say %q, or blames the webhook", restarted, got, want)
		}
	}
}

// TestControllersGoOnWithWhatIsNotCorrected: a CloneSet whose content is foreign and stays so is not blocked, or its
// failed pods would not be replaced.
func TestControllersGoOnWithWhatIsNotCorrected(t *testing.T) {
	store, err := objects.New(&rest.Config{}, meta.NewDefaultRESTMapper(nil), topology.LabelHub)
	if err != nil {
		t.Fatal(err)
	}
	label := func(u *unstructured.Unstructured, key, value string) {
		labels := u.GetLabels()
		labels[key] = value
		u.SetLabels(labels)
	}
	carryOut := func(change func(a *attempts, live *unstructured.Unstructured)) func(*attempts) error {
		return func(a *attempts) error {
			live := a.live()
			if change != nil {
				change(a, live)
			}
			_, err := a.carryOut(a.t.Context(), a.w, a.memo,
				Facts{Order: a.memo.order, Live: live, Memory: a.memo.Memory, Now: a.clk.Now()})
			return err
		}
	}
	for _, tc := range []struct {
		name    string
		attempt func(a *attempts) error
		blocked bool
	}{
		{"a pause between corrections", carryOut(func(a *attempts, _ *unstructured.Unstructured) {
			a.memo.CorrectAt = a.clk.Now().Add(time.Second)
		}), true},
		{"another hub took it", carryOut(func(_ *attempts,
			live *unstructured.Unstructured) {
			label(live, topology.LabelHub, "other")
		}), false},
		{"a newer order was carried out", carryOut(func(_ *attempts, live *unstructured.Unstructured) {
			live.SetAnnotations(map[string]string{topology.AnnotationSequence: "6"})
		}), false},
		{"the hub asks what exists", carryOut(func(a *attempts,
			_ *unstructured.Unstructured) {
			a.memo.order.Adopt = topology.AdoptLook
		}), false},
		{"it is being deleted", carryOut(func(a *attempts, live *unstructured.Unstructured) {
			live.SetDeletionTimestamp(&metav1.Time{Time: a.clk.Now()})
		}), false},
		{"a new order is held", func(a *attempts) error {
			_, err := a.hold(a.t.Context(), a.w, a.memo)
			return err
		}, false},
		{"it is not allowed any more", func(a *attempts) error { return a.refuse(a.t.Context(), a.w, a.memo, "no") }, false},
		{"the order cannot be read", func(a *attempts) error {
			a.w.Generation++
			a.w.Spec.Workload.Manifests = nil
			a.recall(client.ObjectKeyFromObject(a.w), a.w)
			return nil
		}, false},
		{"the order of the next Work cannot be read", func(a *attempts) error {
			a.w.UID = "w2"
			a.w.Spec.Workload.Manifests = nil
			a.recall(client.ObjectKeyFromObject(a.w), a.w)
			return nil
		}, false},
		{"the order is for another object", func(a *attempts) error {
			a.w.Generation++
			a.w.Spec.Workload.Manifests[0].Raw = []byte(strings.ReplaceAll(settings, `"settings"`, `"other"`))
			a.recall(client.ObjectKeyFromObject(a.w), a.w)
			return nil
		}, false},
		{"a new order comes", func(a *attempts) error {
			a.w.Generation++
			a.w.Annotations[topology.AnnotationSequence] = "6"
			a.recall(client.ObjectKeyFromObject(a.w), a.w)
			return nil
		}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := newAttempts(t, settings)
			a.Objects = store
			a.overwrite(set("theirs", "1"))
			ref, object := a.memo.order.Ref, a.live()
			if !a.Generations.Foreign(ref.GroupVersionKind, object) {
				t.Fatal("the content is not foreign")
			}
			if err := tc.attempt(a); err != nil {
				t.Fatal(err)
			}
			if got := a.Generations.Foreign(ref.GroupVersionKind, object); got != tc.blocked {
				t.Errorf("the controllers are blocked: %t, want %t", got, tc.blocked)
			}
		})
	}
}
