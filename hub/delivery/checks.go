package delivery

import (
	"encoding/json"
	"fmt"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// planChecks returns the Works of the Jobs that the wave under way has in its members. It is pure. The Jobs are in the
// namespace of the workload's placement.
func planChecks(key wire.Key, hubID string, p *topology.WorkloadPlacement) ([]*work.Work, *kinds.Rejection, error) {
	if p.Spec.Wave == nil {
		return nil, nil, nil
	}
	var works []*work.Work
	for i := range p.Spec.Wave.Jobs {
		job := &p.Spec.Wave.Jobs[i]
		manifest, err := renderJob(key, job)
		if err != nil {
			return nil, nil, err
		}
		if len(manifest) > maxManifest {
			return nil, &kinds.Rejection{Reason: TooLarge, Message: fmt.Sprintf(
				"the Job of check %q of %s has %d KiB, and at most %d KiB are delivered; make its template smaller",
				job.Check, key.Sentence(), len(manifest)/1024, maxManifest/1024)}, nil
		}
		for _, cluster := range job.Clusters {
			name := wire.Key{
				Group:     batchv1.GroupName,
				Kind:      "Job",
				Namespace: key.PlacementNamespace(),
				Name:      job.Name,
			}.Work(
				cluster,
			)
			works = append(works, &work.Work{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: name.Namespace, Name: name.Name,
					Labels: map[string]string{topology.LabelPlacement: string(p.UID)},
					Annotations: map[string]string{
						topology.AnnotationHubID:    hubID,
						topology.AnnotationSequence: strconv.FormatInt(p.Spec.RevisionSequence, 10),
						topology.AnnotationWorkload: key.String(),
						topology.AnnotationCheck:    job.Check,
						topology.AnnotationJob:      job.Name,
					},
					Finalizers: []string{work.ExecutionFinalizer},
				},
				Spec: work.WorkSpec{
					Workload: work.WorkloadTemplate{Manifests: []work.Manifest{{RawExtension: runtime.RawExtension{Raw: manifest}}}},
				},
			})
		}
	}
	return works, nil, nil
}

// renderJob returns the manifest of a Job. What the user wrote goes as it is: the member's API server judges it. A Job
// that would be removed by itself would be made again and again, and one that is suspended never ends.
func renderJob(key wire.Key, job *topology.WaveRun) ([]byte, error) {
	tree := map[string]any{}
	if err := json.Unmarshal(job.Template.Raw, &tree); err != nil {
		return nil, fmt.Errorf("read the template of the Job of check %s of %s: %w", job.Check, key.Sentence(), err)
	}
	template := unstructured.Unstructured{Object: tree}
	out := unstructured.Unstructured{Object: map[string]any{}}
	if spec, ok := tree["spec"].(map[string]any); ok {
		for _, field := range []string{"ttlSecondsAfterFinished", "suspend", "selector", "manualSelector"} {
			delete(spec, field)
		}
		out.Object["spec"] = spec
	}
	out.SetGroupVersionKind(batchv1.SchemeGroupVersion.WithKind("Job"))
	out.SetNamespace(key.PlacementNamespace())
	out.SetName(job.Name)
	if labels := carried(template.GetLabels(), nil); len(labels) > 0 {
		out.SetLabels(labels)
	}
	if annotations := carried(template.GetAnnotations(), nil); len(annotations) > 0 {
		out.SetAnnotations(annotations)
	}
	manifest, err := json.Marshal(out.Object)
	if err != nil {
		return nil, fmt.Errorf("encode the Job of check %s of %s: %w", job.Check, key.Sentence(), err)
	}
	return manifest, nil
}
