package aggregate

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// Zeros are written out, though an object as it is read has them already; other fields only where they changed.
func TestCountersAreWrittenOut(t *testing.T) {
	base := &apps.CloneSet{}
	base.Status.CurrentRevision = "web-1"
	object := base.DeepCopy()
	object.Status.Replicas = 3
	for _, step := range []struct{ current, want string }{
		{"web-1", `{"status":{"availableReplicas":0,"expectedUpdatedReplicas":0,"readyReplicas":0,"replicas":3,"updatedAvailableReplicas":0,"updatedReadyReplicas":0,"updatedReplicas":0}}`},
		{"", `{"status":{"availableReplicas":0,"currentRevision":null,"expectedUpdatedReplicas":0,"readyReplicas":0,"replicas":3,"updatedAvailableReplicas":0,"updatedReadyReplicas":0,"updatedReplicas":0}}`},
	} {
		object.Status.CurrentRevision = step.current
		data, err := withCounters{client.MergeFrom(base)}.Data(object)
		if err != nil {
			t.Fatal(err)
		}
		if string(data) != step.want {
			t.Errorf("current revision %q:\ngot  %s\nwant %s", step.current, data, step.want)
		}
	}
}
