package report

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/apply"
)

// listening is a hub that can be written to; nothing else is asked of it here.
type listening struct {
	Hub
	client client.Client
	round  int64
}

func (l listening) Client() client.Client { return l.client }

func (l listening) Round() int64 { return l.round }

// TestAReportIsForOneWork: a report on a Work that was deleted meanwhile does not land on the next one of its name, and
// one on that names all that it says, also in place of what was there.
func TestAReportIsForOneWork(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := work.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	gone := &work.Work{ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-es-east", Name: "shop.web.cloneset", UID: "gone"}}
	stands := gone.DeepCopy()
	stands.UID = "stands"
	stands.Status.Report = &work.Report{HubID: "hub", Sequence: 1, Unschedulable: []work.UnschedulablePods{{Pods: 2}}}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(stands).WithStatusSubresource(stands).Build()
	r := &Reconciler{Options: Options{Hub: listening{client: c},
		Clock: clocktesting.NewFakePassiveClock(time.Unix(1000, 0))}, works: map[types.NamespacedName]*memo{}}
	status := work.WorkStatus{Report: &work.Report{HubID: "hub", Sequence: 5}}
	send := func(w *work.Work) (*work.WorkStatus, error) {
		err := r.send(t.Context(), w.DeepCopy(), &memo{}, apply.Outcome{}, *status.DeepCopy())
		got := &work.Work{}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(w), got); err != nil {
			t.Fatal(err)
		}
		return &got.Status, err
	}
	got, err := send(gone)
	if err == nil {
		t.Error("the report on the Work that is gone was taken")
	}
	if diff := cmp.Diff(&stands.Status, got); diff != "" {
		t.Errorf("the report on the Work that is gone changed the next one (-before +after):\n%s", diff)
	}
	got, err = send(stands)
	if err != nil {
		t.Error(err)
	}
	if got.Report == nil || got.Report.Sequence != 5 || len(got.Report.Unschedulable) > 0 {
		t.Errorf("the Work that stands has %+v", got.Report)
	}
}

// TestHubOfAnEarlierVersion: how many pods have still to restart is not sent again to a hub that does not keep it.
func TestHubOfAnEarlierVersion(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := work.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for name, earlier := range map[string]bool{"it keeps the number": false, "it does not know the number": true} {
		t.Run(name, func(t *testing.T) {
			w := &work.Work{ObjectMeta: metav1.ObjectMeta{Namespace: "flotilla-east", Name: "web", UID: "u"}}
			c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(w).WithStatusSubresource(w).WithInterceptorFuncs(
				interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object,
					patch client.Patch, opts ...client.SubResourcePatchOption) error {
					err := c.SubResource(sub).Patch(ctx, o, patch, opts...)
					if got, ok := o.(*work.Work); ok && earlier && err == nil {
						forgetRestarts(got.Status.Report)
					}
					return err
				}}).Build()
			r := &Reconciler{Options: Options{Hub: listening{client: c, round: 3},
				Clock: clocktesting.NewFakePassiveClock(time.Unix(1000, 0))}, works: map[types.NamespacedName]*memo{}}
			status := func(left int32) work.WorkStatus {
				return work.WorkStatus{Report: &work.Report{HubID: "hub", Sequence: 5, InUse: []work.SubsetUse{{ToRestart: left}}}}
			}
			m := &memo{}
			for _, left := range []int32{0, 2} {
				if err := r.send(t.Context(), w.DeepCopy(), m, apply.Outcome{}, status(left)); err != nil {
					t.Fatal(err)
				}
				if want := earlier && left > 0; (m.restartsUnkept == 3) != want || m.restartsUnkept == 0 == want {
					t.Errorf("%d to restart: %d", left, m.restartsUnkept)
				}
			}
			next := status(2)
			m.keepsRestarts(&next, 3)
			if !Same(m.status, next) {
				t.Errorf("the same is sent again: %+v after %+v", next.Report, m.status.Report)
			}
			next = status(2)
			if m.keepsRestarts(&next, 4); next.Report.InUse[0].ToRestart != 2 {
				t.Error("the next session of the hub does not get the number")
			}
		})
	}
}
