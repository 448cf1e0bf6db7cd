package adopt

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

const nativeDB = `
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: db
  namespace: shop
  uid: u
  resourceVersion: "7"
  labels: {team: shop}
  annotations: {kubectl.kubernetes.io/last-applied-configuration: "{}", note: kept}
spec:
  replicas: 3
  serviceName: db
  minReadySeconds: 5
  ordinals: {start: 2}
  podManagementPolicy: Parallel
  revisionHistoryLimit: 4
  persistentVolumeClaimRetentionPolicy: {whenDeleted: Delete, whenScaled: Retain}
  selector: {matchLabels: {app: db}}
  updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 1}}
  template: {metadata: {labels: {app: db}}, spec: {containers: [{name: main, image: "db:1"}]}}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {resources: {requests: {storage: 1Gi}}}
    status: {phase: Pending}
status: {readyReplicas: 3}
`

const advancedDB = `
apiVersion: apps.kruise.io/v1beta1
kind: StatefulSet
metadata:
  name: db
  namespace: shop
  labels: {team: shop}
  annotations: {note: kept}
spec:
  replicas: 3
  serviceName: db
  ordinals: {start: 2}
  podManagementPolicy: Parallel
  revisionHistoryLimit: 4
  persistentVolumeClaimRetentionPolicy: {whenDeleted: Delete, whenScaled: Retain}
  selector: {matchLabels: {app: db}}
  updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 1, minReadySeconds: 5}}
  template: {metadata: {labels: {app: db}}, spec: {containers: [{name: main, image: "db:1"}]}}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {resources: {requests: {storage: 1Gi}}}
`

func TestNativeStatefulSetsKeepTheirFields(t *testing.T) {
	read := func(text string) *unstructured.Unstructured {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
			t.Fatal(err)
		}
		return object
	}
	native := read(nativeDB)
	got, err := advanced(native)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(read(advancedDB).Object, got.Object); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff(read(nativeDB).Object, native.Object); diff != "" {
		t.Errorf("the native object changed, -want +got:\n%s", diff)
	}
	set := &apps.StatefulSet{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(got.Object, set, true); err != nil {
		t.Error(err)
	}
}
