package rollout

import (
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
)

// The published reasons of the condition SidecarSetUpgradable.
const (
	ReasonAllUpgradable   = "AllSidecarsetUpgradable"
	ReasonUpdateImmutable = "UpdateImmutableField"
)

// conditions plans the condition of pods that changes cannot reach, and of those that they can reach again.
func (p *Plan) conditions(set *Set, views []view, now time.Time) error {
	for _, v := range views {
		upgradable := v.updated || v.upgradable
		if p.writes(v.pod) || upgradable && podstate.Condition(v.pod, v1beta1.SidecarSetUpgradable) == nil {
			continue // an update brings it
		}
		data, err := conditionPatch(v.pod, set.Name, upgradable, now)
		if err != nil {
			return err
		}
		if data != nil {
			p.Writes = append(p.Writes, Write{Pod: v.pod, Condition: data})
		}
	}
	return nil
}

// conditionPatch returns the patch of the status that says whether changes of a SidecarSet can reach the pod, nil if it
// says so already. The message has all SidecarSets of the pod, as JSON.
func conditionPatch(pod *corev1.Pod, set string, upgradable bool, now time.Time) ([]byte, error) {
	have := podstate.Condition(pod, v1beta1.SidecarSetUpgradable)
	all := map[string]bool{}
	if have != nil && json.Unmarshal([]byte(have.Message), &all) != nil || all == nil {
		all = map[string]bool{}
	}
	all[set] = upgradable
	message, err := json.Marshal(all)
	if err != nil {
		return nil, fmt.Errorf("encode condition %s: %w", v1beta1.SidecarSetUpgradable, err)
	}
	want := corev1.PodCondition{
		Type: v1beta1.SidecarSetUpgradable, Status: corev1.ConditionTrue, Reason: ReasonAllUpgradable,
		Message: string(message), LastTransitionTime: metav1.NewTime(now.UTC().Truncate(time.Second)),
	}
	for _, is := range all {
		if !is {
			want.Status, want.Reason = corev1.ConditionFalse, ReasonUpdateImmutable
		}
	}
	if have != nil && have.Status == want.Status {
		want.LastTransitionTime = have.LastTransitionTime
		if have.Message == want.Message && have.Reason == want.Reason {
			return nil, nil
		}
	}
	data, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []corev1.PodCondition{want}}})
	if err != nil {
		return nil, fmt.Errorf("encode condition %s: %w", v1beta1.SidecarSetUpgradable, err)
	}
	return data, nil
}
