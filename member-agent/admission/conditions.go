package admission

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/spread"
)

// The kinds whose pods are spread at admission. The controllers of all others stamp the subset themselves.
const (
	kindDeployment  = "Deployment"
	kindReplicaSet  = "ReplicaSet"
	kindStatefulSet = "StatefulSet"
	kindJob         = "Job"
	groupApps       = "apps"
	groupBatch      = "batch"
)

// labelTemplateHash is on the pods of a Deployment: the last part of the name of their ReplicaSet.
const labelTemplateHash = "pod-template-hash"

// maxExpression is the longest expression that names the workloads one by one, in code points. The parser of an API server
// takes 100 000; one of this length is within what its evaluation may cost (tested on a real one). It holds about 1 500
// workloads with names of usual lengths.
const maxExpression = 64_000

// target is a workload whose pods are spread at admission.
type target struct {
	kind string
	types.NamespacedName
}

// targetOf returns the workload of the WorkloadSpread; false if it is none whose pods are spread at admission.
func targetOf(ws *v1beta1.WorkloadSpread) (target, bool) {
	t := spread.TargetOf(ws)
	// What could not be a name would also break out of the quotes of the expression.
	if !spreadAtAdmission(t.Group, t.Kind) || len(validation.IsDNS1123Subdomain(t.Name)) > 0 {
		return target{}, false
	}
	return target{t.Kind, types.NamespacedName{Namespace: ws.Namespace, Name: t.Name}}, true
}

func spreadAtAdmission(group, kind string) bool {
	switch kind {
	case kindDeployment, kindReplicaSet, kindStatefulSet:
		return group == groupApps
	case kindJob:
		return group == groupBatch
	default:
		return false
	}
}

// ownsSpreadPods tells whether pods of this controller may be spread at admission.
func ownsSpreadPods(owner *metav1.OwnerReference) bool {
	version, err := schema.ParseGroupVersion(owner.APIVersion)
	return err == nil && owner.Kind != kindDeployment && spreadAtAdmission(version.Group, owner.Kind)
}

// deploymentOf returns the name of the Deployment that made the ReplicaSet, by the rule of its controller: the name of the
// ReplicaSet is that of the Deployment, a hyphen and the hash that its pods carry as a label. "" if it is not so.
func deploymentOf(replicaSet string, podLabels map[string]string) string {
	hash := podLabels[labelTemplateHash]
	name, ok := strings.CutSuffix(replicaSet, "-"+hash)
	if hash == "" || !ok {
		return ""
	}
	return name
}

// expression returns the CEL expression that is true for the pods of the targets and no others. If it would be too long it is
// true for all pods whose controller is of one of the targets' kinds, and named is false.
func expression(targets []target) (text string, named bool) {
	names := map[string][]string{}
	for _, t := range targets {
		names[t.kind] = append(names[t.kind], "'"+t.String()+"'")
	}
	text = ownerExpression(names, func(subject string, of []string) string {
		slices.Sort(of)
		return subject + " in [" + strings.Join(slices.Compact(of), ", ") + "]"
	})
	if utf8.RuneCountInString(text) <= maxExpression {
		return text, true
	}
	return ownerExpression(names, func(string, []string) string { return "true" }), false
}

// ownerExpression writes the expression; within writes the condition that an expression's value is one of the names.
func ownerExpression(names map[string][]string, within func(subject string, names []string) string) string {
	const (
		name   = "request.namespace + '/' + o.name"
		hash   = "object.metadata.labels['" + labelTemplateHash + "']"
		hashed = "has(object.metadata.labels) && '" + labelTemplateHash + "' in object.metadata.labels && o.name.endsWith('-' + " + hash + ")"
		// The name of the ReplicaSet without hyphen and hash.
		deployment = "request.namespace + '/' + o.name.substring(0, size(o.name) - size(" + hash + ") - 1)"
	)
	var owners []string
	owner := func(group, kind, condition string) {
		owners = append(owners, fmt.Sprintf("o.apiVersion.startsWith('%s/') && o.kind == '%s' && (%s)", group, kind, condition))
	}
	for _, kind := range slices.Sorted(maps.Keys(names)) {
		switch kind {
		case kindDeployment:
			owner(groupApps, kindReplicaSet, hashed+" && "+within(deployment, names[kind]))
		case kindReplicaSet, kindStatefulSet:
			owner(groupApps, kind, within(name, names[kind]))
		case kindJob:
			owner(groupBatch, kind, within(name, names[kind]))
		}
	}
	return "has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists(o, has(o.controller) && o.controller && (" +
		strings.Join(owners, " || ") + "))"
}
