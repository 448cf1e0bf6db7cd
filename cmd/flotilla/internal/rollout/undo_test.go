package rollout

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// TestUndoSaysWhatAPartitionKeeps holds that an undo of a workload with a partition says that it keeps pods, and which
// command lets them go.
func TestUndoSaysWhatAPartitionKeeps(t *testing.T) {
	key := wire.Key{Group: "apps.kruise.io", Kind: "CloneSet", Namespace: "shop", Name: "web"}
	for partition, want := range map[string]string{"": "", "0": "", "0%": "", "27": "partition of 27 ",
		"90%": "partition of 90% "} {
		cs := &apps.CloneSet{}
		if partition != "" {
			cs.Spec.UpdateStrategy.RollingUpdate = &apps.RollingUpdateCloneSetStrategy{
				Partition: new(intstr.Parse(partition))}
		}
		got := heldBack(key, cs)
		if (got == "") != (want == "") || !strings.Contains(got, want) ||
			want != "" && !strings.Contains(got, "flotilla rollout promote cloneset/web -n shop") {
			t.Errorf("partition %q: %q", partition, got)
		}
	}
}
