package resourcedistribution

import (
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// Facts are what a plan is made of.
type Facts struct {
	Distribution *v1beta1.ResourceDistribution
	// Name and Hash are those of the resource.
	Name, Hash string
	Namespaces []Namespace
	// Copies are the objects of this ResourceDistribution.
	Copies []Copy
	// Compared are the versions of copies that were as the resource when they were compared last, by namespace.
	Compared map[string]string
	// Conflicts are the namespaces in which an object of others has the name.
	Conflicts map[string]bool
}

// Namespace is a namespace of the cluster.
type Namespace struct {
	Name   string
	Labels map[string]string
	// Deleting: it is being deleted, and takes no new objects.
	Deleting bool
}

// Copy is the metadata of a copy.
type Copy struct {
	Namespace, Name string
	UID             types.UID
	// Version is its resourceVersion, Hash that of the resource that it was made from.
	Version, Hash string
	Deleting      bool
}

// Plan is what one pass does. All lists are sorted by namespace.
type Plan struct {
	// Desired are the namespaces that are to have a copy; Missing are those of them that do not exist.
	Desired, Missing []string
	// Create are namespaces without a copy. Compare are copies that may differ from the resource. Delete are copies that
	// are not to be.
	Create  []string
	Compare []Copy
	Delete  []Copy
	// Conflicts are the namespaces of Desired in which an object of others has the name, Going those whose copy is being
	// deleted: they get another one when it is gone.
	Conflicts, Going []string
}

// system are the namespaces that never get a copy, as published.
func system() []string { return []string{metav1.NamespaceSystem, metav1.NamespacePublic} }

// Compute returns the plan. It errs where the namespace selector cannot be used.
func Compute(f Facts) (Plan, error) {
	wanted, err := f.wanted()
	if err != nil {
		return Plan{}, err
	}
	plan := Plan{Desired: slices.Sorted(maps.Keys(wanted))}
	copies := map[string]Copy{}
	for _, have := range f.Copies {
		if _, ok := wanted[have.Namespace]; ok && have.Name == f.Name {
			copies[have.Namespace] = have
		} else if !have.Deleting {
			plan.Delete = append(plan.Delete, have)
		}
	}
	for _, namespace := range plan.Desired {
		have, exists := copies[namespace]
		switch {
		case !wanted[namespace]:
			plan.Missing = append(plan.Missing, namespace)
		case have.Deleting:
			plan.Going = append(plan.Going, namespace)
		case exists:
			if have.Hash != f.Hash || f.Compared[namespace] != have.Version {
				plan.Compare = append(plan.Compare, have)
			}
		case f.Conflicts[namespace]:
			plan.Conflicts = append(plan.Conflicts, namespace)
		default:
			plan.Create = append(plan.Create, namespace)
		}
	}
	return plan, nil
}

// wanted returns the namespaces that are to have a copy, and whether they exist. One that is being deleted is none.
func (f *Facts) wanted() (map[string]bool, error) {
	targets := &f.Distribution.Spec.Targets
	selector := labels.Nothing()
	if s := &targets.NamespaceSelector; len(s.MatchLabels)+len(s.MatchExpressions) > 0 {
		var err error
		if selector, err = metav1.LabelSelectorAsSelector(s); err != nil {
			return nil, fmt.Errorf("targets.namespaceSelector selects nothing, because it is not valid; correct it: %w", err)
		}
	}
	out := map[string]bool{}
	for _, included := range targets.IncludedNamespaces.List {
		out[included.Name] = false
	}
	for _, namespace := range f.Namespaces {
		_, included := out[namespace.Name]
		switch {
		case namespace.Deleting:
			delete(out, namespace.Name)
		case included || targets.AllNamespaces || selector.Matches(labels.Set(namespace.Labels)):
			out[namespace.Name] = true
		}
	}
	for _, excluded := range targets.ExcludedNamespaces.List {
		delete(out, excluded.Name)
	}
	for _, name := range system() {
		delete(out, name)
	}
	return out, nil
}
