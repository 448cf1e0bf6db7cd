package placement

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/decision"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/policy"
)

// TestRemarks holds that a field that is not carried out is told with the placement, and stops nothing.
func TestRemarks(t *testing.T) {
	tests := []struct {
		reason string
		object client.Object
		want   string
	}{
		{"nothing to say", cloneSet(), "placed on 2 clusters by FederationPolicy all"},
		{"a percentage means the same in each member", cloneSet(func(cs *apps.CloneSet) {
			cs.Spec.ScaleStrategy.MaxUnavailable = new(intstr.FromString("20%"))
		}), "placed on 2 clusters by FederationPolicy all"},
		{"a number and names of pods", cloneSet(func(cs *apps.CloneSet) {
			cs.Spec.ScaleStrategy = apps.CloneSetScaleStrategy{PodsToDelete: []string{"web-abcde"},
				MaxUnavailable: new(intstr.FromInt32(2))}
		}), "placed on 2 clusters by FederationPolicy all; scaleStrategy.podsToDelete is not carried to members yet; set " +
			"the label " +
			"apps.kruise.io/specified-delete on the pods in their member; scaleStrategy.maxUnavailable 2 is not divided yet; " +
			"it holds in each member"},
		{"Adaptive", unitedDeployment(func(ud *apps.UnitedDeployment) {
			ud.Spec.Topology.ScheduleStrategy.Type = apps.AdaptiveUnitedDeploymentScheduleStrategyType
		}), "placed on 2 clusters by FederationPolicy all"},
		{"reserved pods", unitedDeployment(func(ud *apps.UnitedDeployment) {
			ud.Spec.Topology.ScheduleStrategy = apps.UnitedDeploymentScheduleStrategy{
				Type:     apps.AdaptiveUnitedDeploymentScheduleStrategyType,
				Adaptive: &apps.AdaptiveUnitedDeploymentStrategy{ReserveUnschedulablePods: true},
			}
		}), "placed on 2 clusters by FederationPolicy all; scheduleStrategy.adaptive.reserveUnschedulablePods is not " +
			"carried out on the hub; " +
			"pods that find no node move to other subsets"},
		{"a number in a template", unitedDeployment(func(ud *apps.UnitedDeployment) {
			ud.Spec.Template = apps.SubsetTemplate{CloneSetTemplate: &apps.CloneSetTemplateSpec{Spec: apps.CloneSetSpec{
				Template: apps.NewPodTemplate(podTemplate()), ScaleStrategy: apps.CloneSetScaleStrategy{MaxUnavailable: new(intstr.FromInt32(2))},
			}}}
		}), "placed on 2 clusters by FederationPolicy all; template.cloneSetTemplate.spec.scaleStrategy.maxUnavailable 2 " +
			"is not divided yet; it holds in each member"},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			var w kinds.Workload
			var refusal *kinds.Rejection
			if cs, ok := tt.object.(*apps.CloneSet); ok {
				w, refusal = readCloneSet(cs)
			} else {
				w, refusal = readUnitedDeployment(tt.object.(*apps.UnitedDeployment))
			}
			if refusal != nil {
				t.Fatal(refusal)
			}
			w.Replicas = 4
			d := plan(t, decision.Facts{Workload: w, Members: members("east west"),
				Policy: topology.PolicyReference{Kind: policy.KindPolicy, Name: "all"}})
			v := (&State{Object: tt.object}).decided(&d)
			if v.Federated != metav1.ConditionTrue || v.Reason != decision.Placed || v.Stalled || v.Message != tt.want {
				t.Errorf("verdict %+v", v)
			}
		})
	}
}

func TestRemarksFollowWhatIsWrong(t *testing.T) {
	w := subsets(8, "a:a q:q=2")
	w.Remarks = []string{"something is not carried out yet"}
	d := plan(t, decision.Facts{Workload: w, Members: members("east/a")})
	v := (&State{Object: cloneSet()}).decided(&d)
	if v.Reason != decision.SubsetUnmatched || v.Federated != metav1.ConditionFalse ||
		!strings.HasSuffix(v.Message, "; something is not carried out yet") {
		t.Errorf("verdict %+v", v)
	}
}
