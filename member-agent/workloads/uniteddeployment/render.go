package uniteddeployment

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kruise "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// order says what one subset is to have.
type order struct {
	subset    *kruise.Subset
	replicas  int32
	partition int32
	reserved  int32                 // pods that wait while others run in their place
	waiting   int32                 // reserved pods that are not ready
	covered   int32                 // reserved pods in whose place others serve already
	updating  bool                  // pods of the child are being updated
	revision  string                // of the UnitedDeployment
	limit     *topology.SubsetLimit // nil: the template's limits hold
	cluster   string                // the name of this cluster, "" if it has none
	live      *child                // the child as it is, nil if there is none
	previous  *previous             // of pods that are not to be updated; nil for none
	teaches   bool                  // the child, a StatefulSet, is to have the previous template and no pods
}

// patchError is a patch that cannot be merged.
type patchError struct {
	subset string
	err    error
}

func (e *patchError) Error() string {
	return fmt.Sprintf("patch of subset %s cannot be merged into the pod template: %v; correct the patch", e.subset, e.err)
}

func (e *patchError) Unwrap() error { return e.err }

// render returns the child that the subset is to have, without a name.
func render(ud *kruise.UnitedDeployment, o order) (client.Object, error) {
	switch templateKind(ud) {
	case deploymentKind:
		return renderDeployment(ud, o)
	case statefulSetKind:
		return renderStatefulSet(ud, o)
	case advancedKind:
		return renderAdvanced(ud, o)
	}
	return renderCloneSet(ud, o)
}

func renderCloneSet(ud *kruise.UnitedDeployment, o order) (client.Object, error) {
	template := ud.Spec.Template.CloneSetTemplate.DeepCopy()
	set := &kruise.CloneSet{ObjectMeta: childMeta(ud, template.ObjectMeta, o), Spec: template.Spec}
	set.Spec.Replicas = new(o.replicas)
	set.Spec.Selector = childSelector(ud, o.subset.Name)
	if set.Spec.UpdateStrategy.Type != kruise.OnDeleteCloneSetUpdateStrategyType {
		if set.Spec.UpdateStrategy.RollingUpdate == nil {
			set.Spec.UpdateStrategy.RollingUpdate = &kruise.RollingUpdateCloneSetStrategy{}
		}
		set.Spec.UpdateStrategy.RollingUpdate.Partition = new(intstr.FromInt32(o.partition))
	}
	if o.limit != nil {
		limitCloneSet(&set.Spec, *o.limit)
	}
	allowReservedInCloneSet(&set.Spec, o)
	pods, err := renderPods(set.Spec.Template.PodTemplateSpec, o)
	set.Spec.Template = kruise.NewPodTemplate(pods)
	if live, ok := liveObject[*kruise.CloneSet](o.live); ok {
		keepPullPolicies(&set.Spec.Template.Spec, &live.Spec.Template.Spec)
	}
	if err == nil && o.previous != nil {
		err = o.previous.annotate(set, o)
	}
	return set, err
}

func renderDeployment(ud *kruise.UnitedDeployment, o order) (client.Object, error) {
	template := ud.Spec.Template.DeploymentTemplate.DeepCopy()
	d := &appsv1.Deployment{ObjectMeta: childMeta(ud, template.ObjectMeta, o), Spec: template.Spec.DeploymentSpec}
	d.Spec.Replicas = new(o.replicas)
	d.Spec.Selector = childSelector(ud, o.subset.Name)
	if o.limit != nil {
		limitDeployment(&d.Spec, *o.limit, mayPause(o.live, o.revision))
	}
	allowReservedInDeployment(&d.Spec, o)
	pods, err := renderPods(d.Spec.Template, o)
	d.Spec.Template = pods
	if live, ok := liveObject[*appsv1.Deployment](o.live); ok {
		keepPullPolicies(&d.Spec.Template.Spec, &live.Spec.Template.Spec)
	}
	return d, err
}

func renderAdvanced(ud *kruise.UnitedDeployment, o order) (client.Object, error) {
	template := ud.Spec.Template.AdvancedStatefulSetTemplate.DeepCopy()
	set := &kruise.StatefulSet{ObjectMeta: childMeta(ud, template.ObjectMeta, o), Spec: template.Spec}
	set.Spec.Replicas = new(o.replicas)
	set.Spec.Selector = childSelector(ud, o.subset.Name)
	if set.Spec.UpdateStrategy.Type != appsv1.OnDeleteStatefulSetStrategyType {
		if set.Spec.UpdateStrategy.RollingUpdate == nil {
			set.Spec.UpdateStrategy.RollingUpdate = &kruise.RollingUpdateStatefulSetStrategy{}
		}
		set.Spec.UpdateStrategy.RollingUpdate.Partition = new(o.partition)
	}
	if o.limit != nil {
		limitAdvanced(&set.Spec, *o.limit)
	}
	pods, err := renderPods(set.Spec.Template.PodTemplateSpec, o)
	set.Spec.Template = kruise.NewPodTemplate(pods)
	if live, ok := liveObject[*kruise.StatefulSet](o.live); ok {
		keepPullPolicies(&set.Spec.Template.Spec, &live.Spec.Template.Spec)
	}
	if err == nil && o.previous != nil {
		err = o.previous.annotate(set, o)
	}
	return set, err
}

func renderStatefulSet(ud *kruise.UnitedDeployment, o order) (client.Object, error) {
	template := ud.Spec.Template.StatefulSetTemplate.DeepCopy()
	if o.teaches {
		template.Spec.Template = *o.previous.pods.DeepCopy()
		o.replicas, o.partition, o.revision = 0, 0, o.previous.revision
	}
	set := &appsv1.StatefulSet{ObjectMeta: childMeta(ud, template.ObjectMeta, o), Spec: template.Spec.StatefulSetSpec}
	set.Spec.Replicas = new(o.replicas)
	set.Spec.Selector = childSelector(ud, o.subset.Name)
	if set.Spec.UpdateStrategy.Type != appsv1.OnDeleteStatefulSetStrategyType {
		if set.Spec.UpdateStrategy.RollingUpdate == nil {
			set.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{}
		}
		set.Spec.UpdateStrategy.Type = appsv1.RollingUpdateStatefulSetStrategyType
		set.Spec.UpdateStrategy.RollingUpdate.Partition = new(o.partition)
	}
	if o.limit != nil {
		limitStatefulSet(&set.Spec, *o.limit)
	}
	pods, err := renderPods(set.Spec.Template, o)
	set.Spec.Template = pods
	if live, ok := liveObject[*appsv1.StatefulSet](o.live); ok {
		keepPullPolicies(&set.Spec.Template.Spec, &live.Spec.Template.Spec)
	}
	return set, err
}

// liveObject returns the child as it is, if there is one of that type.
func liveObject[T client.Object](live *child) (T, bool) {
	if live == nil {
		var none T
		return none, false
	}
	object, ok := live.object.(T)
	return object, ok
}

// keepPullPolicies lets containers without a pull policy keep the one that they were given. Who gives it differs: the
// API server by the tag that the image had then, OpenKruise's webhook Always. To take it away would replace the pods of
// a child that was taken over, and turn an update in place into one that recreates.
func keepPullPolicies(pods, live *corev1.PodSpec) {
	keep := func(own, have []corev1.Container) {
		for i := range own {
			at := slices.IndexFunc(have, func(c corev1.Container) bool { return c.Name == own[i].Name })
			if own[i].ImagePullPolicy == "" && at >= 0 {
				own[i].ImagePullPolicy = have[at].ImagePullPolicy
			}
		}
	}
	keep(pods.Containers, live.Containers)
	keep(pods.InitContainers, live.InitContainers)
}

// mayPause reports whether pausing the Deployment keeps what runs, instead of keeping its first pods from coming. A
// child without pods has nothing that an update could disrupt.
func mayPause(live *child, revision string) bool {
	return live != nil && (live.pods.replicas > 0 || live.revision != revision && !live.empty())
}

func childMeta(ud *kruise.UnitedDeployment, template metav1.ObjectMeta, o order) metav1.ObjectMeta {
	annotations := maps.Clone(template.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[kruise.AnnotationSubsetPatch] = string(o.subset.Patch.Raw)
	return metav1.ObjectMeta{
		Namespace:       ud.Namespace,
		GenerateName:    ud.Name + "-" + o.subset.Name + "-",
		Labels:          stamped(template.Labels, o),
		Annotations:     annotations,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(ud, kruise.UnitedDeploymentKind)},
	}
}

// stamped returns the labels with those that name the subset and the revision.
func stamped(labels map[string]string, o order) map[string]string {
	labels = maps.Clone(labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[kruise.LabelSubset] = o.subset.Name
	labels[kruise.LabelSubsetRevision] = o.revision
	return labels
}

func childSelector(ud *kruise.UnitedDeployment, subset string) *metav1.LabelSelector {
	selector := ud.Spec.Selector.DeepCopy()
	if selector.MatchLabels == nil {
		selector.MatchLabels = map[string]string{}
	}
	selector.MatchLabels[kruise.LabelSubset] = subset
	return selector
}

// renderPods returns the pod template of the subset. The patch comes last, as published, but cannot change the labels
// by which pods are found.
func renderPods(pods corev1.PodTemplateSpec, o order) (corev1.PodTemplateSpec, error) {
	requireNodes(&pods.Spec, ownTerm(o.subset.NodeSelectorTerm, o.cluster))
	pods.Spec.Tolerations = append(pods.Spec.Tolerations, o.subset.Tolerations...)
	if len(o.subset.Patch.Raw) > 0 {
		patched, err := patchPods(pods, o.subset.Patch.Raw)
		if err != nil {
			return pods, &patchError{o.subset.Name, err}
		}
		pods = patched
	}
	pods.Labels = stamped(pods.Labels, o)
	return pods, nil
}

// requireNodes ANDs the term into the required node selector terms. Terms are ORed with each other, so it goes into
// each.
func requireNodes(pods *corev1.PodSpec, term corev1.NodeSelectorTerm) {
	if len(term.MatchExpressions) == 0 && len(term.MatchFields) == 0 {
		return
	}
	if pods.Affinity == nil {
		pods.Affinity = &corev1.Affinity{}
	}
	if pods.Affinity.NodeAffinity == nil {
		pods.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	affinity := pods.Affinity.NodeAffinity
	if affinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		affinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{}
	}
	required := affinity.RequiredDuringSchedulingIgnoredDuringExecution
	if len(required.NodeSelectorTerms) == 0 {
		required.NodeSelectorTerms = []corev1.NodeSelectorTerm{*term.DeepCopy()}
		return
	}
	for i := range required.NodeSelectorTerms {
		own := &required.NodeSelectorTerms[i]
		if len(own.MatchExpressions) == 0 && len(own.MatchFields) == 0 {
			continue // an empty term matches no node, and would match some with ours in it
		}
		own.MatchExpressions = append(own.MatchExpressions, term.DeepCopy().MatchExpressions...)
		own.MatchFields = append(own.MatchFields, term.DeepCopy().MatchFields...)
	}
}

// ownTerm returns the term without the requirements on the cluster's name that this cluster fulfils: nodes do not carry
// that label, the cluster answers for them. A requirement that it does not fulfil stays, and no node fulfils it.
func ownTerm(term corev1.NodeSelectorTerm, cluster string) corev1.NodeSelectorTerm {
	if cluster == "" {
		return term
	}
	term.MatchExpressions = slices.DeleteFunc(slices.Clone(term.MatchExpressions),
		func(r corev1.NodeSelectorRequirement) bool {
			if r.Key != topology.LabelCluster {
				return false
			}
			switch r.Operator {
			case corev1.NodeSelectorOpIn:
				return slices.Contains(r.Values, cluster)
			case corev1.NodeSelectorOpNotIn:
				return !slices.Contains(r.Values, cluster)
			case corev1.NodeSelectorOpExists:
				return true
			}
			return false
		})
	return term
}

func patchPods(pods corev1.PodTemplateSpec, patch []byte) (corev1.PodTemplateSpec, error) {
	original, err := json.Marshal(pods)
	if err != nil {
		return pods, err
	}
	merged, err := strategicpatch.StrategicMergePatch(original, patch, corev1.PodTemplateSpec{})
	if err != nil {
		return pods, err
	}
	patched := corev1.PodTemplateSpec{}
	err = json.Unmarshal(merged, &patched)
	return patched, err
}
