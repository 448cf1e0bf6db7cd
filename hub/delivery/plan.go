package delivery

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/decision"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/override"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/hub/wire/karmada"
	"github.com/flotilla-dev/flotilla/topology/handover"
)

// TooLarge is the reason where a manifest is larger than what is delivered.
const TooLarge = "TooLarge"

// additions are what goes into manifests beside the user's object.
type additions struct {
	// overrides are those of each member.
	overrides map[string][]override.Entry
	// divider is the object by which the replicas were divided, nil for none.
	divider client.Object
	// subsets are those in the manifest that each member has, by its namespace and their names; nil unless some are
	// removed.
	subsets map[string]map[string]map[string]any
	// budgets are the members that get what they are granted as an annotation.
	budgets map[string]bool
}

// plan returns the Works that there should be, sorted by member. It is pure.
func plan(
	kind kinds.Kind,
	key wire.Key,
	hubID string,
	object client.Object,
	p *topology.WorkloadPlacement,
	add additions,
) ([]*work.Work, *kinds.Rejection, error) {
	byCluster := map[string][]topology.Cell{}
	for _, c := range p.Spec.Cells {
		byCluster[c.Cluster] = append(byCluster[c.Cluster], c)
	}
	strategy, err := strategyOf(kind, object)
	if err != nil {
		return nil, nil, err
	}
	var works []*work.Work
	for _, cluster := range slices.Sorted(maps.Keys(byCluster)) {
		cells := byCluster[cluster]
		manifest, refusal, err := renderFor(kind, key, object, p, cells, add)
		if refusal != nil || err != nil {
			return nil, refusal, err
		}
		if manifest == nil {
			continue // it was told of none of its subsets, so nothing stands there
		}
		if len(manifest) > maxManifest {
			return nil, &kinds.Rejection{Reason: TooLarge, Message: fmt.Sprintf(
				"the manifest of %s has %d KiB, and at most %d KiB are delivered; make its template smaller, for example by "+
					"moving data to a ConfigMap",
				key.Sentence(),
				len(manifest)/1024,
				maxManifest/1024,
			)}, nil
		}
		name := key.Work(cluster)
		var needs map[string]string
		if names := dependsOn(p, cluster); names != "" {
			needs = map[string]string{topology.AnnotationDependsOn: names}
		}
		w := &work.Work{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: name.Namespace, Name: name.Name,
				Labels: map[string]string{topology.LabelPlacement: string(p.UID)},
				Annotations: withAll(needs, map[string]string{
					topology.AnnotationHubID:    hubID,
					topology.AnnotationSequence: strconv.FormatInt(cells[0].Sequence, 10),
					topology.AnnotationWorkload: key.String(),
				}),
				Finalizers: []string{work.ExecutionFinalizer},
			},
			Spec: work.WorkSpec{
				Workload: work.WorkloadTemplate{Manifests: []work.Manifest{{RawExtension: runtime.RawExtension{Raw: manifest}}}},
			},
		}
		if kind.UpdateStrategy != nil {
			w.Annotations[topology.AnnotationStrategy] = strategy
		}
		if p.Spec.RescheduleAfter != "" {
			w.Annotations[topology.AnnotationRescheduleAfter] = p.Spec.RescheduleAfter
		}
		if asked := handover.Ask(p.Spec.HandOver); asked != "" {
			w.Annotations[topology.AnnotationHandOver] = asked
		}
		if adopt := cells[0].Adoption.Value(); adopt != "" {
			w.Annotations[topology.AnnotationAdopt] = adopt
		}
		works = append(works, w)
	}
	return works, nil, nil
}

// renderFor returns the manifest of a member, with the subsets that it is to leave; none where it would have no subset
// at all.
func renderFor(
	kind kinds.Kind,
	key wire.Key,
	object client.Object,
	p *topology.WorkloadPlacement,
	cells []topology.Cell,
	add additions,
) ([]byte, *kinds.Rejection, error) {
	manifest, refusal, err := renderOverridden(kind, key, object, p, cells, add)
	if refusal != nil || err != nil || kind.Former == nil || !kind.Former.In(object, cells) {
		return manifest, refusal, err
	}
	manifest, err = kind.Former.Add(manifest, cells, add.subsets[key.Work(cells[0].Cluster).Namespace])
	return manifest, nil, err
}

// renderOverridden returns the manifest of a member with the policy's overrides carried out on it.
func renderOverridden(
	kind kinds.Kind,
	key wire.Key,
	object client.Object,
	p *topology.WorkloadPlacement,
	cells []topology.Cell,
	add additions,
) ([]byte, *kinds.Rejection, error) {
	entries := add.overrides[cells[0].Cluster]
	before, err := templateBefore(kind, object, p, cells, add)
	if err != nil {
		return nil, nil, err
	}
	order := &kinds.Order{Cells: cells, Ordinals: p.Spec.Ordinals}
	if add.divider != nil {
		order.Divider = add.divider
	}
	if add.budgets[cells[0].Cluster] {
		order.Budget = kinds.BudgetOf(cells, p.Spec.End)
	}
	manifest, err := render(kind, object, order, before)
	if err != nil || len(entries) == 0 {
		return manifest, nil, err
	}
	manifest, misfit, err := override.Apply(manifest, entries, kind.Guarded)
	if err != nil {
		return nil, nil, fmt.Errorf("override the manifest of %s for %s: %w", key.Sentence(), cells[0].Cluster, err)
	}
	if misfit != nil {
		return nil, decision.Misfit(*p.Spec.Policy, key, cells[0].Cluster, misfit), nil
	}
	return manifest, nil, nil
}

// dependsOn names the Works of a member that carry what goes with the placement. What does not exist on the hub has
// none.
func dependsOn(p *topology.WorkloadPlacement, cluster string) string {
	var names []string
	for _, d := range p.Spec.Dependencies {
		if !d.Missing {
			names = append(names, wire.Key{Kind: d.Kind, Namespace: p.Namespace, Name: d.Name}.Work(cluster).Name)
		}
	}
	return strings.Join(names, ",")
}

func withAll(some, all map[string]string) map[string]string {
	maps.Copy(all, some)
	return all
}

// merge returns have with what want says set in it, and whether that changes anything. Labels, annotations and
// finalizers of others stay.
func merge(have, want *work.Work) (*work.Work, bool) {
	_, adopts := want.Annotations[topology.AnnotationAdopt]
	_, adopted := have.Annotations[topology.AnnotationAdopt]
	optional := []string{topology.AnnotationDependsOn, topology.AnnotationRescheduleAfter, topology.AnnotationHandOver}
	needs := !slices.ContainsFunc(optional, func(key string) bool {
		return have.Annotations[key] != want.Annotations[key]
	})
	preserve := want.Spec.PreserveResourcesOnDeletion == nil ||
		equality.Semantic.DeepEqual(have.Spec.PreserveResourcesOnDeletion, want.Spec.PreserveResourcesOnDeletion)
	if (adopts || !adopted) && isIn(want.Labels, have.Labels) && isIn(want.Annotations, have.Annotations) && needs &&
		preserve &&
		controllerutil.ContainsFinalizer(have, work.ExecutionFinalizer) &&
		sameManifest(have, want) {
		return have, false
	}
	out := have.DeepCopy()
	if out.Labels == nil {
		out.Labels = map[string]string{}
	}
	if out.Annotations == nil {
		out.Annotations = map[string]string{}
	}
	for _, key := range optional {
		delete(out.Annotations, key)
	}
	if want.Spec.PreserveResourcesOnDeletion != nil {
		out.Spec.PreserveResourcesOnDeletion = want.Spec.PreserveResourcesOnDeletion
	}
	if !adopts {
		delete(out.Annotations, topology.AnnotationAdopt)
	}
	maps.Copy(out.Labels, want.Labels)
	maps.Copy(out.Annotations, want.Annotations)
	controllerutil.AddFinalizer(out, work.ExecutionFinalizer)
	out.Spec.Workload = want.Spec.Workload
	return out, true
}

func isIn(want, have map[string]string) bool {
	for key, value := range want {
		if have[key] != value {
			return false
		}
	}
	return true
}

// sameManifest compares bytes first: an API server gives an object back as it was encoded here. Only where it does
// not, the meaning is compared.
func sameManifest(have, want *work.Work) bool {
	if len(have.Spec.Workload.Manifests) != 1 {
		return false
	}
	a, b := have.Spec.Workload.Manifests[0].Raw, want.Spec.Workload.Manifests[0].Raw
	if bytes.Equal(a, b) {
		return true
	}
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	karmada.DropAdded(x, y)
	return reflect.DeepEqual(x, y)
}
