package aggregate

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
)

// observe takes up the user's object, but for a pause, which tests set.
func (f *Facts) observe(o client.Object) {
	kind := apps.CloneSetKind
	if _, ok := o.(*apps.UnitedDeployment); ok {
		kind = apps.UnitedDeploymentKind
	}
	paused := f.Observed.Paused
	f.Kind, f.Generation = kinds.Workloads()[kind.GroupKind()], o.GetGeneration()
	f.Key.Kind, f.Key.Name = kind.Kind, o.GetName()
	f.Observed = f.Kind.Observe(o)
	f.Observed.Paused = f.Observed.Paused || paused
}

func cloneSetStatus(cs *apps.CloneSet, f *Facts, s *Sum, now time.Time) apps.CloneSetStatus {
	f.observe(cs)
	out := cs.DeepCopy()
	f.Kind.Status(out, statusSum(f, s), now)
	return out.Status
}

func unitedDeploymentStatus(ud *apps.UnitedDeployment, f *Facts, s *Sum, now time.Time) apps.UnitedDeploymentStatus {
	f.observe(ud)
	out := ud.DeepCopy()
	f.Kind.Status(out, statusSum(f, s), now)
	return out.Status
}
