package conversion

import (
	"maps"
	"slices"
)

// upUnitedDeployment makes a v1alpha1 UnitedDeployment one of v1beta1. The shape of cloneSetTemplate is v1beta1's in
// both versions; what older manifests have there in v1alpha1's shape is carried over as for a CloneSet. Only the
// default of PVC reuse is v1beta1's in any case, as published: no reuse, unless disablePVCReuse is given and false.
func upUnitedDeployment(object tree) {
	if spec := below(object, "spec", "template", "cloneSetTemplate", "spec"); spec != nil {
		upStrategy(spec)
		scale := child(spec, "scaleStrategy")
		if disable, has := scale["disablePVCReuse"].(bool); has {
			scale["enablePVCReuse"] = !disable
			delete(scale, "disablePVCReuse")
		}
	}
	status := child(object, "status")
	if status == nil {
		return
	}
	update, _ := status["updateStatus"].(tree)
	if revision, has := update["updatedRevision"]; has {
		status["updatedRevision"] = revision
	}
	partitions, _ := update["currentPartitions"].(tree)
	replicas, _ := status["subsetReplicas"].(tree)
	addSubsets(status, replicas, partitions)
	delete(status, "updateStatus")
	delete(status, "subsetReplicas")
}

// addSubsets adds to subsetStatuses the subsets that replicas and partitions alone tell of, by their names.
func addSubsets(status, replicas, partitions tree) {
	list, isList := status["subsetStatuses"].([]any)
	if !isList && status["subsetStatuses"] != nil {
		return
	}
	untold := union(replicas, partitions)
	for _, item := range list {
		subset, _ := item.(tree)
		name, _ := subset["name"].(string)
		delete(untold, name)
	}
	if len(untold) == 0 {
		return
	}
	list = slices.Clone(list)
	for _, name := range slices.Sorted(maps.Keys(untold)) {
		subset := tree{"name": name}
		if n, has := replicas[name]; has {
			subset["replicas"] = n
		}
		if n, has := partitions[name]; has {
			subset["partition"] = n
		}
		list = append(list, subset)
	}
	status["subsetStatuses"] = list
}

// downUnitedDeployment makes a v1beta1 UnitedDeployment one of v1alpha1, whose status says some things twice.
func downUnitedDeployment(object tree) {
	status := child(object, "status")
	if status == nil {
		return
	}
	update, partitions, replicas := tree{}, tree{}, tree{}
	if revision, has := status["updatedRevision"]; has {
		update["updatedRevision"] = revision
		delete(status, "updatedRevision")
	}
	list, _ := status["subsetStatuses"].([]any)
	for _, item := range list {
		subset, _ := item.(tree)
		name, named := subset["name"].(string)
		if !named {
			continue
		}
		if n, has := subset["partition"]; has {
			partitions[name] = n
		}
		if n, has := subset["replicas"]; has {
			replicas[name] = n
		}
	}
	delete(status, "subsetReplicas")
	delete(status, "updateStatus")
	for _, made := range []struct {
		in    tree
		key   string
		value tree
	}{{update, "currentPartitions", partitions}, {status, "updateStatus", update}, {status, "subsetReplicas", replicas}} {
		if len(made.value) > 0 {
			made.in[made.key] = made.value
		}
	}
}
