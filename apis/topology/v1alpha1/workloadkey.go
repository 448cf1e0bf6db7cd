package v1alpha1

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// WorkloadKey returns the value of [AnnotationWorkload] for an object: "<Kind>/<namespace>/<name>" for kinds whose
// group [groupOfBareKind] knows, "<Kind>.<group>/<namespace>/<name>" for all others. The namespace of a cluster-scoped
// object is empty.
func WorkloadKey(kind schema.GroupKind, namespace, name string) string {
	text := kind.Kind
	if group, ok := groupOfBareKind(kind.Kind); !ok || group != kind.Group {
		text = kind.String()
	}
	return text + "/" + namespace + "/" + name
}

// ParseWorkloadKey reads what [WorkloadKey] returned. ok is false for any other text.
func ParseWorkloadKey(text string) (kind schema.GroupKind, namespace, name string, ok bool) {
	parts := strings.Split(text, "/")
	if len(parts) != 3 || parts[0] == "" || parts[2] == "" {
		return schema.GroupKind{}, "", "", false
	}
	kind = schema.ParseGroupKind(parts[0])
	if kind.Group == "" {
		if kind.Group, ok = groupOfBareKind(kind.Kind); !ok {
			return schema.GroupKind{}, "", "", false
		}
	}
	return kind, parts[1], parts[2], true
}

// groupOfBareKind returns the group of a kind that is written without one. These are the kinds that hubs delivered
// before keys had a group: their Works and the agents that read them keep this text. No kind is added here.
func groupOfBareKind(kind string) (group string, ok bool) {
	switch kind {
	case "CloneSet", "UnitedDeployment", "WorkloadSpread":
		return "apps.kruise.io", true
	case "ConfigMap", "PersistentVolumeClaim", "Secret", "Service", "ServiceAccount":
		return "", true
	case "DaemonSet", "Deployment", "ReplicaSet", "StatefulSet":
		return "apps", true
	case "CronJob", "Job":
		return "batch", true
	case "ServiceExport":
		return "multicluster.x-k8s.io", true
	}
	return "", false
}
