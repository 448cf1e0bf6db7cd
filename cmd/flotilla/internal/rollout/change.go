package rollout

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/podtemplate"
)

// restartedAt is the annotation of kubectl rollout restart: a pod template that differs in it is another one.
const restartedAt = "kubectl.kubernetes.io/restartedAt"

// pause stops or lets go on the update of an object. It fails where the kind has no pause.
func pause(object client.Object, paused bool) error {
	switch o := object.(type) {
	case *apps.BroadcastJob:
		return pauseJob(o, paused)
	case *apps.CloneSet:
		pauseCloneSet(&o.Spec, paused)
		return nil
	case *apps.DaemonSet:
		return pauseDaemonSet(o, paused)
	case *apps.SidecarSet:
		o.Spec.UpdateStrategy.Paused = paused
		return nil
	case *apps.StatefulSet:
		return pauseStatefulSet(fmt.Sprintf("StatefulSet %s/%s", o.Namespace, o.Name), &o.Spec, paused)
	case *apps.UnitedDeployment:
		switch t := &o.Spec.Template; {
		case t.CloneSetTemplate != nil:
			pauseCloneSet(&t.CloneSetTemplate.Spec, paused)
			return nil
		case t.DeploymentTemplate != nil:
			t.DeploymentTemplate.Spec.Paused = paused
			return nil
		case t.AdvancedStatefulSetTemplate != nil:
			sentence := fmt.Sprintf("UnitedDeployment %s/%s", o.Namespace, o.Name)
			return pauseStatefulSet(sentence, &t.AdvancedStatefulSetTemplate.Spec, paused)
		}
		return fmt.Errorf("the children of UnitedDeployment %s/%s are StatefulSets, which have no pause: hold pods back "+
			"with spec.updateStrategy.manualUpdate.partitions", o.Namespace, o.Name)
	}
	return fmt.Errorf("%T has no rollout", object)
}

func pauseCloneSet(spec *apps.CloneSetSpec, paused bool) {
	if spec.UpdateStrategy.RollingUpdate == nil {
		if !paused {
			return
		}
		spec.UpdateStrategy.RollingUpdate = &apps.RollingUpdateCloneSetStrategy{}
	}
	spec.UpdateStrategy.RollingUpdate.Paused = paused
}

func pauseDaemonSet(set *apps.DaemonSet, paused bool) error {
	update := &set.Spec.UpdateStrategy
	switch {
	case update.Type == appsv1.OnDeleteDaemonSetStrategyType && paused:
		return fmt.Errorf("DaemonSet %s/%s has updateStrategy.type OnDelete: there is no update to pause", set.Namespace,
			set.Name)
	case update.RollingUpdate != nil:
		update.RollingUpdate.Paused = nil
	case paused:
		update.RollingUpdate = &apps.RollingUpdateDaemonSet{}
	}
	if paused {
		update.RollingUpdate.Paused = &paused
	}
	return nil
}

// pauseStatefulSet pauses or resumes the update of a StatefulSet, or of those of a UnitedDeployment. sentence names the
// object.
func pauseStatefulSet(sentence string, spec *apps.StatefulSetSpec, paused bool) error {
	update := &spec.UpdateStrategy
	switch {
	case update.Type == appsv1.OnDeleteStatefulSetStrategyType && paused:
		return fmt.Errorf("%s has updateStrategy.type OnDelete: there is no update to pause", sentence)
	case update.RollingUpdate != nil:
		update.RollingUpdate.Paused = paused
	case paused:
		update.RollingUpdate = &apps.RollingUpdateStatefulSetStrategy{Paused: true}
	}
	return nil
}

// promote lets all pods be updated: nothing is held back and nothing paused.
func promote(object client.Object) error {
	switch o := object.(type) {
	case *apps.BroadcastJob:
		promoteJob(o)
	case *apps.CloneSet:
		if rolling := o.Spec.UpdateStrategy.RollingUpdate; rolling != nil && rolling.Partition != nil {
			rolling.Partition = new(intstr.FromInt32(0))
		}
	case *apps.DaemonSet:
		if rolling := o.Spec.UpdateStrategy.RollingUpdate; rolling != nil && rolling.Partition != nil {
			rolling.Partition = new(intstr.FromInt32(0))
		}
	case *apps.SidecarSet:
		if o.Spec.UpdateStrategy.Partition != nil {
			o.Spec.UpdateStrategy.Partition = new(intstr.FromInt32(0))
		}
	case *apps.StatefulSet:
		if rolling := o.Spec.UpdateStrategy.RollingUpdate; rolling != nil && rolling.Partition != nil {
			rolling.Partition = new(int32(0))
		}
	case *apps.UnitedDeployment:
		o.Spec.UpdateStrategy.ManualUpdate = nil
		if t := o.Spec.Template; t.StatefulSetTemplate != nil {
			return nil // there is no pause to end
		}
	}
	return pause(object, false)
}

// restart makes the pod template another one, so that every pod is made anew, also where pods are else updated in
// place.
func restart(object client.Object, now time.Time) error {
	template := podtemplate.Of(object)
	if template == nil {
		return fmt.Errorf("%s/%s has no pod template: give spec.template", object.GetNamespace(), object.GetName())
	}
	if template.Annotations == nil {
		template.Annotations = map[string]string{}
	}
	template.Annotations[restartedAt] = now.UTC().Format(time.RFC3339)
	return nil
}
