package adopt

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/member-agent/apply"
)

// merged makes the hub's object of what runs: the first member's, with the replicas of all together where they are
// divided. Members whose pods are made from another template are refused. It is pure.
func merged(members []member) (*unstructured.Unstructured, error) {
	first := members[0].live
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetGroupVersionKind(first.GroupVersionKind())
	object.SetNamespace(first.GetNamespace())
	object.SetName(first.GetName())
	labels := maps.Clone(first.GetLabels())
	delete(labels, topology.LabelHub)
	object.SetLabels(labels)
	annotations := maps.Clone(first.GetAnnotations())
	maps.DeleteFunc(annotations, func(key, _ string) bool {
		return key == corev1.LastAppliedConfigAnnotation || strings.HasPrefix(key, topology.GroupVersion.Group+"/")
	})
	object.SetAnnotations(annotations)
	object.Object["spec"] = first.DeepCopy().Object["spec"]
	if users, lent := usersStrategy(first); lent {
		if err := unstructured.SetNestedMap(object.Object, users, "spec", "updateStrategy"); err != nil {
			return nil, fmt.Errorf("set the update strategy: %w", err)
		}
	}
	var replicas int64
	for i := range members {
		m := &members[i]
		replicas += replicasOf(m.live)
		if same, err := sameTemplates(first, m.live); err != nil {
			return nil, err
		} else if !same {
			return nil, fmt.Errorf("%s %s/%s has another pod template in %s than in %s, and the hub has none yet: make them "+
				"agree, or create the object on the hub with overrides in its policy",
				first.GetKind(), first.GetNamespace(), first.GetName(), m.name, members[0].name)
		}
		if first.GetKind() == apps.UnitedDeploymentKind.Kind && i > 0 {
			if err := addSubsets(object, m.live); err != nil {
				return nil, err
			}
		}
	}
	if whole(first.GroupVersionKind().GroupKind()) {
		return object, nil
	}
	if err := unstructured.SetNestedField(object.Object, replicas, "spec", "replicas"); err != nil {
		return nil, fmt.Errorf("set the replicas: %w", err)
	}
	return object, dropPartitions(object)
}

// dropPartitions takes away the partitions of subsets that the object does not have, since no member that is adopted
// has them.
func dropPartitions(object *unstructured.Unstructured) error {
	path := []string{"spec", "updateStrategy", "manualUpdate", "partitions"}
	partitions, found, err := unstructured.NestedMap(object.Object, path...)
	if err != nil || !found {
		return err
	}
	subsets, _, err := unstructured.NestedSlice(object.Object, "spec", "topology", "subsets")
	if err != nil {
		return fmt.Errorf("read the subsets: %w", err)
	}
	names := map[any]bool{}
	for _, s := range subsets {
		if subset, ok := s.(map[string]any); ok {
			names[subset["name"]] = true
		}
	}
	maps.DeleteFunc(partitions, func(name string, _ any) bool { return !names[name] })
	if err := unstructured.SetNestedMap(object.Object, partitions, path...); err != nil {
		return fmt.Errorf("set the partitions: %w", err)
	}
	return nil
}

// usersStrategy returns the update strategy that the user wrote on a hub which let an object go; false where the object
// has no share of that, or somebody has changed it since.
func usersStrategy(live *unstructured.Unstructured) (map[string]any, bool) {
	var note topology.LetGo
	if err := json.Unmarshal([]byte(live.GetAnnotations()[topology.AnnotationLetGo]), &note); err != nil {
		return nil, false
	}
	stands, _, err := unstructured.NestedFieldNoCopy(live.Object, "spec", "updateStrategy")
	if err != nil {
		return nil, false
	}
	data, err := json.Marshal(stands)
	if err != nil || string(data) != string(note.Lent) {
		return nil, false
	}
	// As clients read it: with whole numbers.
	var users map[string]any
	if err := utiljson.Unmarshal(note.Users, &users); err != nil || users == nil {
		return nil, false
	}
	return users, true
}

// lentNote says which update strategy the object on the hub gets where the first member's has a share of another one;
// empty where it has none.
func lentNote(key wire.Key, first *member, object *unstructured.Unstructured) (string, error) {
	_, released := usersStrategy(first.live)
	orphan := apply.Owner(first.live) != ""
	if !released && !orphan {
		return "", nil
	}
	strategy, _, err := unstructured.NestedFieldNoCopy(object.Object, "spec", "updateStrategy")
	if err != nil {
		return "", fmt.Errorf("read the update strategy of %s: %w", key.Sentence(), err)
	}
	data, err := json.Marshal(strategy)
	if err != nil {
		return "", fmt.Errorf("write the update strategy of %s: %w", key.Sentence(), err)
	}
	if !released {
		return fmt.Sprintf("%s in %s has an updateStrategy that the hub set for this member alone; "+
			"the object on the hub gets it, so check it: %s\n", key.Sentence(), first.name, data), nil
	}
	return fmt.Sprintf("%s in %s has the share of updateStrategy that a hub gave it before it let it go; the object on "+
		"the hub gets what was written there: %s\n",
		key.Sentence(), first.name, data), nil
}

// addSubsets takes over the subsets that only this member has; what numbers both give is added up.
func addSubsets(object, live *unstructured.Unstructured) error {
	have, _, err := unstructured.NestedSlice(object.Object, "spec", "topology", "subsets")
	if err != nil {
		return fmt.Errorf("read the subsets: %w", err)
	}
	more, _, err := unstructured.NestedSlice(live.Object, "spec", "topology", "subsets")
	if err != nil {
		return fmt.Errorf("read the subsets: %w", err)
	}
	at := map[any]map[string]any{}
	for _, s := range have {
		if subset, ok := s.(map[string]any); ok {
			at[subset["name"]] = subset
		}
	}
	for _, s := range more {
		subset, ok := s.(map[string]any)
		if !ok {
			continue
		}
		known := at[subset["name"]]
		if known == nil {
			have = append(have, subset)
			continue
		}
		for _, field := range []string{"replicas", "minReplicas", "maxReplicas"} {
			a, aOK := known[field].(int64)
			b, bOK := subset[field].(int64)
			if aOK && bOK {
				known[field] = a + b
			}
		}
	}
	if err := unstructured.SetNestedSlice(object.Object, have, "spec", "topology", "subsets"); err != nil {
		return fmt.Errorf("set the subsets: %w", err)
	}
	return nil
}
