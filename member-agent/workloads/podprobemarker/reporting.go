package podprobemarker

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/flotilla-dev/flotilla/apis/apps/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// Reporting is what reports to a hub ask about PodProbeMarkers: the pods that are probed count as theirs.
func Reporting() workload.Reporting {
	return workload.Reporting{
		Use: func(live *unstructured.Unstructured) ([]work.SubsetUse, error) {
			marker, err := workload.Decode(live, &v1alpha1.PodProbeMarker{})
			if err != nil {
				return nil, err
			}
			return []work.SubsetUse{work.PodProbeMarkerUse(&marker.Status)}, nil
		},
		Observed: workload.Observed,
	}
}
