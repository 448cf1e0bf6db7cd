package resourcedistribution

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// Reporting is what reports to a hub ask about ResourceDistributions: their copies count as pods.
func Reporting() workload.Reporting {
	return workload.Reporting{
		Use: func(live *unstructured.Unstructured) ([]work.SubsetUse, error) {
			d, err := workload.Decode(live, &v1beta1.ResourceDistribution{})
			if err != nil {
				return nil, err
			}
			return []work.SubsetUse{work.ResourceDistributionUse(&d.Status)}, nil
		},
		Observed: workload.Observed,
	}
}
