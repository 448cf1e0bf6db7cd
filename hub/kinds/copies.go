package kinds

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// SecretKind is carried only where a policy lets Secrets go to members.
const SecretKind = "Secret"

// copiedKinds are the kinds of which members get copies, whoever runs Kubernetes' own workloads.
func copiedKinds() []schema.GroupVersionKind {
	core := corev1.SchemeGroupVersion
	return []schema.GroupVersionKind{
		core.WithKind("ConfigMap"), core.WithKind(claimKind), core.WithKind(SecretKind), core.WithKind("Service"),
		core.WithKind("ServiceAccount"),
		// Who exports a Service to other clusters says so in each of them: a multi-cluster service implementation
		// reads it there.
		{Group: "multicluster.x-k8s.io", Version: "v1alpha1", Kind: "ServiceExport"},
	}
}

// copied returns the table of the kinds of which every selected member gets a copy, by kind. The hub keeps their
// metadata alone: what they hold is read when it is delivered.
func copied(workloads BuiltIns) Table {
	table, kinds := Table{}, copiedKinds()
	if workloads == MembersRunBuiltIns {
		kinds = append(kinds, builtIns()...)
	}
	for _, gvk := range kinds {
		table[gvk.GroupKind()] = Kind{
			GVK: gvk, Mode: Copy,
			New: func() Object { return metadataOf(gvk) },
			NewList: func() ObjectList {
				list := &metav1.PartialObjectMetadataList{}
				list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
				return list
			},
			Read: func(o Object) (Workload, *Rejection) {
				w := NewWorkload(o, gvk, new(int32(0)))
				w.Ref.Generation = 0 // where it goes does not depend on its content
				return w, nil
			},
			Strip: stripOf(gvk.GroupKind()),
		}
	}
	return table
}

// stripOf returns what is removed from copies of a kind, nil for nothing.
func stripOf(kind schema.GroupKind) func(object *unstructured.Unstructured, labels, annotations map[string]string) {
	switch {
	case IsBuiltIn(kind):
		return stripBuiltIn
	case kind.Kind == "Service":
		return stripService
	case kind.Kind == "ServiceAccount":
		return stripServiceAccount
	case kind.Kind == claimKind:
		return stripClaim
	}
	return nil
}

// claimKind holds data of users: a claim is created in members, and never changed or deleted there.
const claimKind = "PersistentVolumeClaim"

// HoldsData reports whether objects of a kind hold data of users, so that they are created in members and never
// changed or deleted there.
func HoldsData(kind schema.GroupKind) bool { return kind == schema.GroupKind{Kind: claimKind} }

func stripServiceAccount(account *unstructured.Unstructured, _, _ map[string]string) {
	unstructured.RemoveNestedField(account.Object, "secrets") // tokens of the hub
}

func stripClaim(claim *unstructured.Unstructured, _, annotations map[string]string) {
	unstructured.RemoveNestedField(claim.Object, "spec", "volumeName")
	maps.DeleteFunc(annotations, func(key, _ string) bool {
		return strings.HasPrefix(key, "pv.kubernetes.io/") || strings.HasPrefix(key, "volume.kubernetes.io/") ||
			strings.HasPrefix(key, "volume.beta.kubernetes.io/")
	})
}

func metadataOf(gvk schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(gvk)
	return o
}

// ClusterMade reports whether every cluster creates this object of a copied kind itself, so that a copy would conflict
// with it.
func ClusterMade(kind, namespace, name string, annotations map[string]string) bool {
	switch kind {
	case "ConfigMap":
		return name == "kube-root-ca.crt"
	case "ServiceAccount":
		return name == "default"
	case "Service":
		return namespace == metav1.NamespaceDefault && name == "kubernetes"
	case SecretKind:
		return annotations[corev1.ServiceAccountNameKey] != ""
	}
	return false
}

// LetsGo reports whether a policy allows objects of this kind in members.
func LetsGo(spec *topology.FederationPolicySpec, kind string) bool {
	return kind != SecretKind || spec.Dependencies.Secrets == topology.SecretsCarry
}

// stripService takes out the addresses and ports that the hub's cluster gave, and the address families, which are
// those of its network. A headless Service stays headless.
func stripService(service *unstructured.Unstructured, _, _ map[string]string) {
	if ip, _, _ := unstructured.NestedString(service.Object, "spec", "clusterIP"); ip != corev1.ClusterIPNone {
		unstructured.RemoveNestedField(service.Object, "spec", "clusterIP")
	}
	for _, field := range []string{"clusterIPs", "healthCheckNodePort", "ipFamilies"} {
		unstructured.RemoveNestedField(service.Object, "spec", field)
	}
	if policy, _, _ := unstructured.NestedString(service.Object, "spec", "ipFamilyPolicy"); policy == string(
		corev1.IPFamilyPolicySingleStack,
	) {
		unstructured.RemoveNestedField(service.Object, "spec", "ipFamilyPolicy")
	}
	ports, _, _ := unstructured.NestedSlice(service.Object, "spec", "ports")
	for _, port := range ports {
		if p, ok := port.(map[string]any); ok {
			delete(p, "nodePort")
		}
	}
	if len(ports) > 0 {
		// A list of the same shape can always be set.
		_ = unstructured.SetNestedSlice(service.Object, ports, "spec", "ports")
	}
}

// BuiltIns says who runs the workloads of Kubernetes' own kinds, of apps/v1 and batch/v1, that stand on the hub.
type BuiltIns bool

const (
	// HubRunsBuiltIns means that controllers of the hub's own cluster run them, so that nothing of them goes to members.
	// Every cluster has such controllers, unless they were left out.
	HubRunsBuiltIns BuiltIns = false
	// MembersRunBuiltIns means that the hub is an API server without such controllers, and members get copies.
	MembersRunBuiltIns BuiltIns = true
)

// builtIns are the kinds of workloads that every cluster with Kubernetes' own controllers runs by itself.
func builtIns() []schema.GroupVersionKind {
	apps, batch := appsv1.SchemeGroupVersion, batchv1.SchemeGroupVersion
	return []schema.GroupVersionKind{
		apps.WithKind("DaemonSet"), apps.WithKind("Deployment"), apps.WithKind("ReplicaSet"), apps.WithKind("StatefulSet"),
		batch.WithKind("CronJob"), batch.WithKind("Job"),
	}
}

// BuiltInKinds returns Kubernetes' own workloads.
func BuiltInKinds() []schema.GroupVersionKind { return builtIns() }

// IsBuiltIn reports whether a kind is one of Kubernetes' own workloads, in any version.
func IsBuiltIn(kind schema.GroupKind) bool {
	return slices.ContainsFunc(
		builtIns(),
		func(builtIn schema.GroupVersionKind) bool { return builtIn.GroupKind() == kind },
	)
}

// OfBuiltIn reports whether one of Kubernetes' own workloads owns the object, as a Deployment owns a ReplicaSet:
// members create their own.
func OfBuiltIn(object Object) bool {
	owner := metav1.GetControllerOfNoCopy(object)
	return owner != nil && IsBuiltIn(schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind())
}

// builtInNames returns those kinds with their apiVersion, for messages.
func builtInNames() []string {
	var names []string
	for _, kind := range builtIns() {
		names = append(names, fmt.Sprintf("%s (%s)", kind.Kind, kind.GroupVersion()))
	}
	return names
}

// InsteadOf says how to run what a kind does that the hub's own cluster runs.
func InsteadOf(kind string) string {
	switch kind {
	case "Deployment", "ReplicaSet":
		return "put the pod template into a UnitedDeployment (spec.template.deploymentTemplate), or use a CloneSet, and " +
			"name that kind"
	case "StatefulSet":
		return "put the StatefulSet into a UnitedDeployment (spec.template.statefulSetTemplate), and name that kind"
	case "DaemonSet":
		return "make it a DaemonSet of apps.kruise.io and name that with apiVersion: apps.kruise.io/v1beta1, or apply the " +
			"DaemonSet in the members that are to run it, in a namespace that is not federated"
	default: // one that ends is not divided
		return fmt.Sprintf("apply the %s in the members that are to run it, in a namespace that is not federated", kind)
	}
}

// InsteadInBothModes says it where it is not known whether the hub's own cluster runs such workloads.
func InsteadInBothModes(kind string) string {
	return InsteadOf(kind) + "; on a hub with --hub-runs-workloads=false name it in a policy instead"
}

// Names lists the kinds that a policy can select, for messages: first those whose status the hub writes, by group, then
// those that are copied, by group and version.
func Names(table Table) string {
	byGroup, byVersion := map[string][]string{}, map[string][]string{}
	for kind, row := range table {
		switch {
		case row.Mode != Copy:
			byGroup[kind.Group] = append(byGroup[kind.Group], kind.Kind)
		case !IsBuiltIn(kind):
			version := row.GVK.GroupVersion().String()
			byVersion[version] = append(byVersion[version], kind.Kind)
		}
	}
	text := strings.Join(slices.Concat(listed(byGroup), listed(byVersion)), ", and ")
	if _, placed := table[builtIns()[0].GroupKind()]; placed {
		text += ", and " + strings.Join(builtInNames(), ", ")
	}
	return text
}

// listed returns "<kind>, <kind> (<of>)" for each entry, sorted.
func listed(kindsOf map[string][]string) []string {
	var texts []string
	for _, of := range slices.Sorted(maps.Keys(kindsOf)) {
		slices.Sort(kindsOf[of])
		texts = append(texts, fmt.Sprintf("%s (%s)", strings.Join(kindsOf[of], ", "), of))
	}
	return texts
}

// Named returns the kinds of this name that hubs place, wherever the hub's own cluster does not run them itself.
func Named(name string) []schema.GroupVersionKind {
	all := slices.Concat(copiedKinds(), builtIns())
	for _, kind := range Workloads() {
		all = append(all, kind.GVK)
	}
	return slices.DeleteFunc(all, func(kind schema.GroupVersionKind) bool { return kind.Kind != name })
}

// jobLabels are the labels by which an API server selects the pods of a Job. They hold the uid that the Job has on the
// hub.
var jobLabels = [...]string{batchv1.ControllerUidLabel, batchv1.JobNameLabel, "controller-uid", "job-name"}

// stripBuiltIn removes from one of Kubernetes' own workloads what an API server or a controller wrote.
func stripBuiltIn(object *unstructured.Unstructured, labels, annotations map[string]string) {
	maps.DeleteFunc(annotations, func(key, _ string) bool {
		return strings.HasPrefix(key, "deployment.kubernetes.io/") || strings.HasPrefix(key, "batch.kubernetes.io/") ||
			strings.HasPrefix(key, "deprecated.daemonset.template.generation")
	})
	if object.GetKind() != "Job" {
		return
	}
	// A Job that is removed some time after its end would be made again, and run again.
	unstructured.RemoveNestedField(object.Object, "spec", "ttlSecondsAfterFinished")
	if manual, _, _ := unstructured.NestedBool(object.Object, "spec", "manualSelector"); manual {
		return // the labels and the selector are the user's
	}
	unstructured.RemoveNestedField(object.Object, "spec", "selector")
	for _, label := range jobLabels {
		delete(labels, label)
		unstructured.RemoveNestedField(object.Object, "spec", "template", "metadata", "labels", label)
	}
}

// RunsOnHub rejects a workload that a controller of the hub's own cluster runs: its pods would run on the hub and in
// members. Only such a controller writes the status of these kinds.
func RunsOnHub(object *unstructured.Unstructured) *Rejection {
	if !IsBuiltIn(object.GroupVersionKind().GroupKind()) || !hasValue(object.Object["status"]) {
		return nil
	}
	name := fmt.Sprintf("%s %s/%s", object.GetKind(), object.GetNamespace(), object.GetName())
	return &Rejection{Reason: topology.PolicyRunsOnHub, Message: fmt.Sprintf(
		"%s has a status, so a controller of the hub's own cluster runs it, though the hub was started with "+
			"--hub-runs-workloads=false; what members have of it stays as it is; end that controller and empty the status, or "+
			"start the hub without the flag and put the pod template into a UnitedDeployment",
		name,
	)}
}

// hasValue reports whether a value holds anything but zeros.
func hasValue(value any) bool {
	switch v := value.(type) {
	case nil:
		return false
	case map[string]any:
		for _, field := range v {
			if hasValue(field) {
				return true
			}
		}
		return false
	case []any:
		return len(v) > 0
	case int64:
		return v != 0
	case string:
		return v != ""
	case bool:
		return v
	}
	return true
}

// never returns the kinds of mode [Never]. They are no part of a hub's table: no controller of a hub watches them,
// since a hub does not serve most of them, and their statuses have no conditions. What names such a kind on a hub, as a
// policy or a manifest that is planned, is answered with the sentence of [NeverPlaced].
func never() []Kind {
	version := apps.GroupVersion.Group + "/v1alpha1"
	var rows []Kind
	for _, kind := range []string{"ContainerRecreateRequest", "EphemeralJob", "NodeImage", "NodePodProbe"} {
		rows = append(rows, Kind{GVK: schema.FromAPIVersionAndKind(version, kind), Mode: Never})
	}
	return append(rows, Kind{GVK: apps.PersistentPodStateKind, Mode: Never},
		Kind{GVK: apps.ImageListPullJobKind, Mode: Never})
}

// NeverPlacedKinds returns the kinds that no hub places.
func NeverPlacedKinds() []schema.GroupVersionKind {
	var all []schema.GroupVersionKind
	for _, row := range never() {
		all = append(all, row.GVK)
	}
	return all
}

// NeverPlaced returns why a hub never places a kind and what to do, and false for any other kind.
func NeverPlaced(kind schema.GroupKind) (string, bool) {
	row, ok := tableOf(never()...)[kind]
	if !ok {
		return "", false
	}
	switch row.GVK.Kind {
	case "NodeImage", "NodePodProbe":
		return fmt.Sprintf("%[1]s, which names a node of one cluster: apply the %[1]s in the member that has it", kind.Kind),
			true
	case apps.ImageListPullJobKind.Kind:
		return fmt.Sprintf("%s, whose ImagePullJobs a hub does not make: apply an ImagePullJob for each image, or the %[1]s "+
			"in each member", kind.Kind), true
	case apps.PersistentPodStateKind.Kind:
		return fmt.Sprintf("%[1]s, which records nodes of one cluster: annotate the StatefulSet with %[2]s=true, which makes "+
			"one in each member, or apply the %[1]s in the member", kind.Kind, apps.AnnotationAutoPersistentPodState), true
	default:
		return fmt.Sprintf("%[1]s, which names pods of one cluster: apply the %[1]s in the member that runs them", kind.Kind),
			true
	}
}
