package imagelistpulljob

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// Reporting is what reports to a hub ask about ImageListPullJobs: their nodes count as pods. An order is observed once
// all ImagePullJobs of the job act on it.
func Reporting() workload.Reporting {
	return workload.Reporting{
		Use: func(live *unstructured.Unstructured) ([]work.SubsetUse, error) {
			job, err := workload.Decode(live, &v1beta1.ImageListPullJob{})
			if err != nil {
				return nil, err
			}
			return []work.SubsetUse{work.ImageListPullJobUse(&job.Status)}, nil
		},
		Observed: func(live *unstructured.Unstructured) bool {
			return workload.Observed(live) && workload.ObservedSequence(live)
		},
	}
}
