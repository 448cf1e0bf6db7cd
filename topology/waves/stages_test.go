package waves

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// TestStages lists what each wave or step adds, and what is left for the end.
func TestStages(t *testing.T) {
	places := []Place{{Cluster: "east", Replicas: 4}, {Cluster: "west", Replicas: 6}, {Cluster: "south"}}
	west := topology.WaveClusters{Names: []string{"west"}}
	waves := func(list ...topology.Wave) *topology.Rollout {
		return &topology.Rollout{Strategy: topology.RolloutWaves, Waves: list}
	}
	for _, tt := range []struct {
		name    string
		rollout *topology.Rollout
		want    string
	}{
		{"no waves", &topology.Rollout{}, ""},
		{"waves of another strategy", &topology.Rollout{Waves: []topology.Wave{{Name: "all"}}}, ""},
		{"a canary, its cluster, all", waves(topology.Wave{Name: "canary", Clusters: west, Size: new(intstr.FromInt32(1))},
			topology.Wave{Name: "west", Clusters: west}, topology.Wave{Name: "all"}),
			"canary 1: west 1|west 5: west 5|all 4: east 4"},
		{"what no wave selects comes last", waves(topology.Wave{Name: "west", Clusters: west}), "west 6: west 6| 4: east 4"},
		{"steps count all places together", &topology.Rollout{Steps: at("90%", "50%", "0")}, "90% 1:|50% 4:|0 5:"},
	} {
		var got []string
		for _, s := range Stages(tt.rollout, places) {
			text := fmt.Sprintf("%s %d:", s.Wave.Name, s.Pods)
			for _, p := range s.Places {
				text += fmt.Sprintf(" %s %d", p.Cluster, p.Pods)
			}
			got = append(got, text)
		}
		if strings.Join(got, "|") != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, strings.Join(got, "|"), tt.want)
		}
	}
}
