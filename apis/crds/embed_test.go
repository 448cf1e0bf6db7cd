package crds_test

import (
	"encoding/json"
	"reflect"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/flotilla-dev/flotilla/apis/crds"
)

// TestVersions pins that kinds of two versions are stored in the newer one, and that a request for the other one fails
// while no conversion is served, rather than losing fields.
func TestVersions(t *testing.T) {
	for kind, crd := range definitions(t) {
		var served []string
		for _, version := range versions(t, crd) {
			name := version["name"].(string)
			if version["served"] != true {
				t.Errorf("%s %s is not served", kind, name)
			}
			if version["storage"] == true {
				name += " stored"
			}
			served = append(served, name)
		}
		strategy, _, _ := unstructured.NestedString(crd.Object, "spec", "conversion", "strategy")
		want, wantStrategy := []string{"v1alpha1 stored"}, ""
		switch kind {
		case "AdvancedCronJob", "CloneSet", "ContainerRecreateRequest", "DaemonSet",
			"PersistentPodState", "PodUnavailableBudget",
			"ResourceDistribution", "SidecarSet", "StatefulSet",
			"UnitedDeployment", "WorkloadSpread":
			want, wantStrategy = []string{"v1alpha1", "v1beta1 stored"}, "Webhook"
		case "BroadcastJob", "ImageListPullJob", "ImagePullJob", "NodeImage": // both versions are the same
			want = []string{"v1alpha1", "v1beta1 stored"}
		}
		if !reflect.DeepEqual(served, want) || strategy != wantStrategy {
			t.Errorf("%s: versions %q, conversion %q, want %q and %q", kind, served, strategy, want, wantStrategy)
		}
	}
}

// TestSize keeps definitions well below what etcd takes in one request: 1.5 MiB, with the status and managed fields.
func TestSize(t *testing.T) {
	const most = 1100 << 10
	for kind, crd := range definitions(t) {
		data, err := json.Marshal(crd.Object)
		if err != nil {
			t.Fatal(err)
		}
		if len(data) > most {
			t.Errorf("%s has %d bytes as JSON, want %d at most", kind, len(data), most)
		}
	}
}

func TestWithConversion(t *testing.T) {
	oneForm := map[string]bool{ // of two versions
		"broadcastjobs.apps.kruise.io": true, "imagelistpulljobs.apps.kruise.io": true, "imagepulljobs.apps.kruise.io": true,
		"nodeimages.apps.kruise.io": true,
	}
	for _, crd := range definitions(t) {
		if list, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions"); len(list) == 1 {
			oneForm[crd.GetName()] = true
		}
	}
	type client = admissionregistrationv1.WebhookClientConfig
	service := map[string]any{"namespace": "flotilla-system", "name": "flotilla-agent", "path": "/convert",
		"port": int64(443)}
	for _, row := range []struct {
		name   string
		client client
		want   map[string]any
	}{
		{"as it is", client{}, map[string]any{"service": service}},
		{"a bundle", client{CABundle: []byte("ab")}, map[string]any{"service": service, "caBundle": "YWI="}},
		{"a URL", client{URL: new("https://a:1/convert"), CABundle: []byte("ab")},
			map[string]any{"url": "https://a:1/convert", "caBundle": "YWI="}},
		{"a Service", client{Service: &admissionregistrationv1.ServiceReference{Namespace: "n", Name: "s"}},
			map[string]any{"service": map[string]any{"namespace": "n", "name": "s", "path": "/convert"}}},
		{"a Service with all", client{Service: &admissionregistrationv1.ServiceReference{Namespace: "n", Name: "s",
			Path: new("/p"), Port: new(int32(9443))}},
			map[string]any{"service": map[string]any{"namespace": "n", "name": "s", "path": "/p", "port": int64(9443)}}},
	} {
		t.Run(row.name, func(t *testing.T) {
			all, err := crds.AllWithConversion(row.client)
			if err != nil {
				t.Fatal(err)
			}
			for _, crd := range all {
				config, found, _ := unstructured.NestedMap(crd.Object, "spec", "conversion", "webhook", "clientConfig")
				if oneForm[crd.GetName()] {
					if found {
						t.Errorf("%s, whose versions are alike, has the conversion %v", crd.GetName(), config)
					}
				} else if !reflect.DeepEqual(config, row.want) {
					t.Errorf("%s: %v, want %v", crd.GetName(), config, row.want)
				}
			}
			before := definitions(t)["CloneSet"]
			kept := before.DeepCopy()
			crds.WithConversion(before, row.client)
			if !reflect.DeepEqual(before, kept) {
				t.Error("the definition that was given changed")
			}
		})
	}
}
