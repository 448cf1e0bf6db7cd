package advancedcronjob

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// reasonScheduleUnconfirmed says that the hub may have given the schedule to another member.
const reasonScheduleUnconfirmed = "ScheduleUnconfirmed"

// readTicks reads which ticks a hub gave to this member, and whether they may be another member's by now: then no tick
// is started before the agent has read the newest order.
func (f *Facts) readTicks(budget workload.Budget) {
	value, ok := f.Cron.Annotations[topology.AnnotationTicks]
	if !ok {
		return
	}
	ticks := &topology.Ticks{}
	err := json.Unmarshal([]byte(value), ticks)
	switch {
	case err == nil && ticks.Since != nil && ticks.At == nil:
		err = fmt.Errorf("it has since and no at")
	case err == nil:
		f.Ticks = ticks
	}
	switch {
	case err != nil:
		f.Held = &conditions.Cause{Reason: reasonScheduleUnconfirmed, Message: fmt.Sprintf(
			"annotation %s cannot be read, so no job is started until the hub's order is applied again: %v",
			topology.AnnotationTicks, err)}
	case ticks.Alone && !budget.UnconfirmedSince.IsZero():
		f.Held = &conditions.Cause{Reason: reasonScheduleUnconfirmed, Message: "no job is started before the agent is in " +
			"contact with the hub, which may have given the schedule to another member: check the network path from the agent " +
			"to the hub"}
	}
}

// Reporting is what reports to a hub ask. A member that may start jobs counts as one pod, so that the hub waits for its
// end before another member starts jobs; one that is paused counts as none.
func Reporting() workload.Reporting {
	return workload.Reporting{
		Use: func(live *unstructured.Unstructured) ([]work.SubsetUse, error) {
			job, err := workload.Decode(live, &v1beta1.AdvancedCronJob{})
			if err != nil {
				return nil, err
			}
			return []work.SubsetUse{work.AdvancedCronJobUse(&job.Spec)}, nil
		},
		Observed: workload.Observed,
	}
}
