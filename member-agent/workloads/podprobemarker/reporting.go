package podprobemarker

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// Reporting is what reports to a hub ask about PodProbeMarkers. The hub reads their numbers from the status.
func Reporting() workload.Reporting {
	return workload.Reporting{
		Use: func(*unstructured.Unstructured) ([]work.SubsetUse, error) {
			return []work.SubsetUse{work.PodProbeMarkerUse()}, nil
		},
		Observed: workload.Observed,
	}
}
