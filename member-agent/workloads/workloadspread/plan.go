package workloadspread

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/order"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/spread"
)

// plan is what is to be done, and what is to be told.
type plan struct {
	change []change      // pods that lack something
	remove []*corev1.Pod // pods that wait in vain in closed subsets, the oldest first

	subsets  []v1beta1.WorkloadSpreadSubsetStatus            // of the newest version
	versions map[string][]v1beta1.WorkloadSpreadSubsetStatus // of each version; nil where all versions count together
	// schedulable are the conditions of the subsets; nil where pods wait forever.
	schedulable []*metav1.Condition
	// outside are the pods in no subset and those above the caps, of all.
	outside, total int
	// refused says which patch cannot be given to a running pod.
	refused *conditions.Cause
	// wake is when to look again; 0 means never.
	wake time.Duration
}

// change is what a pod lacks.
type change struct {
	pod                 *corev1.Pod
	labels, annotations map[string]string
}

// makePlan decides everything from what was observed.
func makePlan(o *observed) *plan {
	p := &plan{refused: o.patch}
	if o.stalled != nil {
		return p
	}
	placements := p.assign(o)
	bySubset := map[string][]*corev1.Pod{}
	for _, version := range slices.Sorted(maps.Keys(placements)) {
		for subset, pods := range placements[version].Pods {
			bySubset[subset] = append(bySubset[subset], pods...)
		}
	}
	p.planAdaptive(o, bySubset)
	p.planCosts(o, placements)
	p.count(o, placements)
	return p
}

// assign sorts the pods by their versions. A pod that no annotation assigns gets the subset that fits its node.
func (p *plan) assign(o *observed) map[string]*spread.Placements {
	placements := map[string]*spread.Placements{o.newest: {Pods: map[string][]*corev1.Pod{}}}
	var unassigned []*corev1.Pod
	placementsOf := func(pod *corev1.Pod) *spread.Placements {
		version := o.target.Version(pod)
		if placements[version] == nil {
			placements[version] = &spread.Placements{Pods: map[string][]*corev1.Pod{},
				Old: o.target.Kind == "Deployment" && version != o.newest}
		}
		return placements[version]
	}
	for _, pod := range o.pods {
		b := placementsOf(pod)
		if subset, ok := spread.Assigned(pod, o.ws); ok {
			b.Pods[subset] = append(b.Pods[subset], pod)
		} else {
			unassigned = append(unassigned, pod)
		}
	}
	order.Sort(unassigned) // by name, as the controller of CloneSets does: both must find the same
	for _, pod := range unassigned {
		b := placementsOf(pod)
		subset, ok := "", false
		if pod.Spec.NodeName != "" {
			subset, ok = o.rule.Match(pod, o.node(pod.Spec.NodeName), o.ws, counted(b))
		}
		if ok {
			p.take(o, pod, subset)
		}
		b.Pods[subset] = append(b.Pods[subset], pod)
	}
	if o.target.Kind == v1beta1.CloneSetKind.Kind {
		placements[""].Spare = max(0, int32(len(o.pods))-o.replicas)
	}
	return placements
}

func counted(b *spread.Placements) map[string]int32 {
	counts := make(map[string]int32, len(b.Pods))
	for subset, pods := range b.Pods {
		counts[subset] = int32(len(pods))
	}
	return counts
}

// take plans what a running pod lacks as one of the subset. Where the patch cannot be given to it, it is in the subset
// without.
func (p *plan) take(o *observed, pod *corev1.Pod, subset string) {
	var selector labels.Selector
	if o.object != nil {
		selector = selectorOf(o.object, o.target.Version(pod))
	}
	lacks, annotations, err := spread.Metadata(pod, o.ws, subset, selector)
	if err != nil {
		p.refused = &conditions.Cause{Reason: ReasonInvalidPatch, Message: fmt.Sprintf("pod %s: %v", pod.Name, err)}
		lacks, annotations = nil, map[string]string{v1beta1.AnnotationMatchedWorkloadSpread: spread.Annotation(o.ws, subset)}
	}
	if len(lacks)+len(annotations) > 0 {
		p.change = append(p.change, change{pod, lacks, annotations})
	}
}

// planCosts finds the pods with a deletion cost that is not theirs. A pod that gets its subset from its node is not
// written to before it has one: workloads remove pods without a node first anyway.
func (p *plan) planCosts(o *observed, placements map[string]*spread.Placements) {
	if !o.target.Costly() {
		return
	}
	planned := make(map[string]int, len(p.change)) // by the names of pods
	for i := range p.change {
		planned[p.change[i].pod.Name] = i
	}
	for _, version := range slices.Sorted(maps.Keys(placements)) {
		of := placements[version]
		costs := o.rule.Costs(*of)
		for _, subset := range slices.Sorted(maps.Keys(of.Pods)) {
			for _, pod := range of.Pods[subset] {
				want := spread.CostText(costs[pod.UID])
				if pod.Annotations[corev1.PodDeletionCost] == want {
					continue
				}
				if _, assigned := spread.Assigned(pod, o.ws); !assigned && pod.Spec.NodeName == "" {
					continue
				}
				i, ok := planned[pod.Name]
				if !ok {
					i = len(p.change)
					p.change = append(p.change, change{pod, nil, map[string]string{}})
				}
				p.change[i].annotations[corev1.PodDeletionCost] = want
			}
		}
	}
}

// count makes the rows of the status.
func (p *plan) count(o *observed, placements map[string]*spread.Placements) {
	for version, of := range placements {
		rows := rowsOf(o.rule, of)
		p.total += len(of.Pods[""])
		p.outside += len(of.Pods[""])
		for i, row := range rows {
			p.total += int(row.Replicas)
			if limit := o.rule.Subsets[i].Cap; limit != spread.Unlimited {
				p.outside += int(max(0, row.Replicas-limit))
			}
		}
		if version != "" {
			if p.versions == nil {
				p.versions = map[string][]v1beta1.WorkloadSpreadSubsetStatus{}
			}
			p.versions[version] = rows
		}
	}
	p.outside = max(0, p.outside-int(max(0, sparesOf(placements))))
	p.subsets = rowsOf(o.rule, placements[o.newest])
	for i, c := range p.schedulable {
		if c != nil {
			p.subsets[i].Conditions = []metav1.Condition{*c}
		}
	}
}

// sparesOf returns how many pods above the caps are of a rollout, and go by themselves.
func sparesOf(placements map[string]*spread.Placements) (spares int32) {
	for _, of := range placements {
		spares += of.Spare
	}
	return spares
}

func rowsOf(rule spread.Rule, of *spread.Placements) []v1beta1.WorkloadSpreadSubsetStatus {
	rows := make([]v1beta1.WorkloadSpreadSubsetStatus, 0, len(rule.Subsets))
	for _, s := range rule.Subsets {
		row := v1beta1.WorkloadSpreadSubsetStatus{Name: s.Name, Replicas: int32(len(of.Pods[s.Name])),
			MissingReplicas: spread.Unlimited}
		if s.Cap != spread.Unlimited {
			row.MissingReplicas = max(0, s.Cap-row.Replicas)
		}
		rows = append(rows, row)
	}
	return rows
}

func byAge(a, b *corev1.Pod) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
}
