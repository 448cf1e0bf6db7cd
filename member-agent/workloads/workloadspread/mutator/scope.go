package mutator

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/admission"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/spread"
)

// The kinds whose pods are spread at admission. The controllers of those of apps.kruise.io stamp the subset themselves.
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

// ownsSpreadPods reports whether pods of this controller may be spread at admission.
func ownsSpreadPods(owner *metav1.OwnerReference) bool {
	version, err := schema.ParseGroupVersion(owner.APIVersion)
	return err == nil && owner.Kind != kindDeployment && spreadAtAdmission(version.Group, owner.Kind)
}

// deploymentOf returns the name of the Deployment that made the ReplicaSet, by the rule of its controller: the name of
// the ReplicaSet is that of the Deployment, a hyphen and the hash that its pods carry as a label. "" if it is not so.
func deploymentOf(replicaSet string, podLabels map[string]string) string {
	hash := podLabels[labelTemplateHash]
	name, ok := strings.CutSuffix(replicaSet, "-"+hash)
	if hash == "" || !ok {
		return ""
	}
	return name
}

// maxNamespaces bounds the names in the scope: 10 000 names of 63 characters are half of what etcd stores as one
// object. The pods of WorkloadSpreads in further namespaces start unspread.
const maxNamespaces = 10_000

// scope returns which pods the API server sends: those of targets.
func (m *mutator) scope(ctx context.Context) ([]admission.Scope, error) {
	targets, err := m.targets(ctx)
	if err != nil || len(targets) == 0 {
		return nil, err
	}
	s, left := scopeOf(targets)
	if left > 0 {
		m.log.Info("too many namespaces have WorkloadSpreads; the pods of these workloads start unspread", "workloads", left)
	}
	return []admission.Scope{s}, nil
}

// targets returns the workloads whose pods are spread at admission.
func (m *mutator) targets(ctx context.Context) ([]target, error) {
	var list v1beta1.WorkloadSpreadList
	if err := m.reader.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list WorkloadSpreads: %w", err)
	}
	federated := map[string]bool{}
	var out []target
	for i := range list.Items {
		t, ok := targetOf(&list.Items[i])
		if !ok || list.Items[i].DeletionTimestamp != nil {
			continue
		}
		hubs, asked := federated[t.Namespace]
		if !asked && m.federated != nil {
			var err error
			if hubs, err = m.federated(ctx, t.Namespace); err != nil {
				return nil, fmt.Errorf("ask whether namespace %s is federated: %w", t.Namespace, err)
			}
			federated[t.Namespace] = hubs
		}
		if !hubs {
			out = append(out, t)
		}
	}
	return out, nil
}

// scopeOf returns the scope of the targets, of which there is at least one. left is how many targets are in too many
// namespaces.
func scopeOf(targets []target) (s admission.Scope, left int) {
	namespaces := map[string]bool{}
	for _, t := range targets {
		namespaces[t.Namespace] = true
	}
	names := slices.Sorted(maps.Keys(namespaces))
	if len(names) > maxNamespaces {
		names = names[:maxNamespaces]
		kept := slices.DeleteFunc(slices.Clone(targets), func(t target) bool { return t.Namespace > names[maxNamespaces-1] })
		left, targets = len(targets)-len(kept), kept
	}
	narrow, wide := conditions(targets)
	return admission.Scope{
		Name: "targets of WorkloadSpreads", FailurePolicy: admissionregistrationv1.Ignore, Namespaces: names,
		Condition: narrow, Wide: wide,
	}, left
}

// conditions returns the CEL expression that is true for the pods of the targets and no others, and the one that is
// true for all pods whose controller is of one of the targets' kinds.
func conditions(targets []target) (narrow, wide string) {
	names := map[string][]string{}
	for _, t := range targets {
		names[t.kind] = append(names[t.kind], "'"+t.String()+"'")
	}
	narrow = ownerCondition(names, func(subject string, of []string) string {
		slices.Sort(of)
		return subject + " in [" + strings.Join(slices.Compact(of), ", ") + "]"
	})
	return narrow, ownerCondition(names, func(string, []string) string { return "true" })
}

// ownerCondition writes the expression; within writes the condition that an expression's value is one of the names.
func ownerCondition(names map[string][]string, within func(subject string, names []string) string) string {
	const (
		name   = "request.namespace + '/' + o.name"
		hash   = "object.metadata.labels['" + labelTemplateHash + "']"
		hashed = "has(object.metadata.labels) && '" + labelTemplateHash + "' in object.metadata.labels && " +
			"o.name.endsWith('-' + " + hash + ")"
		// The name of the ReplicaSet without hyphen and hash.
		deployment = "request.namespace + '/' + o.name.substring(0, size(o.name) - size(" + hash + ") - 1)"
	)
	var owners []string
	owner := func(group, kind, condition string) {
		owners = append(
			owners,
			fmt.Sprintf("o.apiVersion.startsWith('%s/') && o.kind == '%s' && (%s)", group, kind, condition),
		)
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
	return "has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists(o, " +
		"has(o.controller) && o.controller && (" +
		strings.Join(
			owners,
			" || ",
		) + "))"
}
