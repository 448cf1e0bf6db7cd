package crds_test

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/flotilla-dev/flotilla/apis/apps/conversion"
	"github.com/flotilla-dev/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-dev/flotilla/apis/crds"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
)

// server is a real API server that serves the CustomResourceDefinitions.
type server struct {
	client.Client
	kubeconfig string
	kubectl    string
	// version is the one that the rows of check are sent in: "" for the one that they are written in.
	version string
}

// TestOnAPIServer starts one API server for all tests that need it: the rules mean what it makes of them.
func TestOnAPIServer(t *testing.T) {
	hub := fleet.ForTest(t, fleet.Config{}).Hub()
	converter := newConverter(t, hub.WebhookAddress())
	if err := hub.ApplyCRDs(t.Context(), crds.FS); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(hub.RESTConfig(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	bin, err := fleet.FindBinaries()
	if err != nil {
		t.Fatal(err)
	}
	s := &server{Client: c, kubeconfig: hub.Kubeconfig(), kubectl: filepath.Join(bin, "kubectl")}
	for _, test := range []struct {
		name string
		run  func(*testing.T, *server)
	}{
		{"CloneSet", testCloneSetRules},
		{"StatefulSet", testStatefulSetRules},
		{"StatefulSetOfV1beta1", testStatefulSetRulesOfV1beta1},
		{"DaemonSet", testDaemonSetRules},
		{"DaemonSetOfV1beta1", testDaemonSetRulesOfV1beta1},
		{"BroadcastJob", testBroadcastJobRules},
		{"AdvancedCronJob", testAdvancedCronJobRules},
		{"AdvancedCronJobOfV1beta1", testAdvancedCronJobRulesOfV1beta1},
		{"ContainerRecreateRequest", testContainerRecreateRequestRules},
		{"EphemeralJob", testEphemeralJobRules},
		{"ImagePullJob", testImagePullJobRules},
		{"ImageListPullJob", testImageListPullJobRules},
		{"NodeImage", testNodeImageRules},
		{"PodProbeMarker", testPodProbeMarkerRules},
		{"NodePodProbe", testNodePodProbeRules},
		{"PersistentPodState", testPersistentPodStateRules},
		{"ResourceDistribution", testResourceDistributionRules},
		{"PodUnavailableBudget", testPodUnavailableBudgetRules},
		{"PodUnavailableBudgetOfV1beta1", testPodUnavailableBudgetRulesOfV1beta1},
		{"SidecarSet", testSidecarSetRules},
		{"UnitedDeployment", testUnitedDeploymentRules},
		{"WorkloadSpread", testWorkloadSpreadRules},
		{"Topology", testTopologyRules},
		{"Types", testTypes},
		{"TypesApplied", testTypesApplied},
		{"TypesKept", testTypesKept},
		{"MistypedTemplates", testMistypedTemplates},
		{"Published", testPublishedManifests},
		{"Scale", testScale},
		{"ServerSideApply", testServerSideApply},
		{"Defaults", testDefaults},
		{"Status", testStatus},
		{"Kubectl", testKubectl},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, s) })
	}
	if asked := converter.asked.Load(); asked > 0 {
		t.Errorf("%d requests for the stored version asked for a conversion", asked)
	}
	converter.announce(t, s)
	old := *s
	old.version = v1alpha1.GroupVersion.Version
	t.Run("v1alpha1", func(t *testing.T) { testV1alpha1(t, &old) })
}

// run returns what kubectl prints.
func (s *server) run(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), s.kubectl, append([]string{"--kubeconfig", s.kubeconfig}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// parse reads one manifest.
func parse(t *testing.T, manifest string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(manifest), u); err != nil {
		t.Fatalf("%v in\n%s", err, manifest)
	}
	return u
}

// object is what the tests send.
type object = unstructured.Unstructured

// edit changes an object before it is sent.
type edit func(*unstructured.Unstructured)

// set puts a value, given as YAML, at a path such as "spec.replicas".
func set(path, value string) edit {
	return func(u *unstructured.Unstructured) {
		var v any
		if err := yaml.Unmarshal([]byte(value), &v); err != nil {
			panic(err)
		}
		if err := unstructured.SetNestedField(u.Object, toJSON(v), strings.Split(path, ".")...); err != nil {
			panic(err)
		}
	}
}

// toJSON makes integers of numbers, as the API machinery has them.
func toJSON(v any) any {
	switch v := v.(type) {
	case float64:
		return int64(v)
	case map[string]any:
		for key := range v {
			v[key] = toJSON(v[key])
		}
	case []any:
		for i := range v {
			v[i] = toJSON(v[i])
		}
	}
	return v
}

// remove takes away what is at a path.
func remove(path string) edit {
	return func(u *unstructured.Unstructured) {
		unstructured.RemoveNestedField(u.Object, strings.Split(path, ".")...)
	}
}

func all(edits ...edit) edit {
	return func(u *unstructured.Unstructured) {
		for _, e := range edits {
			e(u)
		}
	}
}

// rule is one row: an object that breaks a rule and what the user must read, or one that must be taken.
type rule struct {
	name string
	// first is made before, if it is not nil, and then updated to what edit makes of it.
	first edit
	edit  edit
	// says are parts of the message; none: the object is taken.
	says []string
}

// check sends every row as a dry run; rows with a first object are updates of it.
func (s *server) check(t *testing.T, manifest string, rows []rule) {
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			err := s.send(t, manifest, row)
			if len(row.says) == 0 {
				if err != nil {
					t.Fatalf("must be taken: %v", err)
				}
				return
			}
			if err == nil {
				t.Fatalf("was taken, want an error that says %q", row.says)
			}
			if !apierrors.IsInvalid(err) {
				t.Fatalf("error %v, want one of validation", err)
			}
			for _, part := range row.says {
				// In another version than they are written in, fields and sentences differ.
				if s.version == "" && !strings.Contains(err.Error(), part) {
					t.Errorf("the message lacks %q:\n%v", part, err)
				}
			}
		})
	}
}

func (s *server) send(t *testing.T, manifest string, row rule) error {
	t.Helper()
	u := parse(t, manifest)
	if row.first == nil {
		row.edit(u)
		return s.Create(t.Context(), s.inVersion(t, u), client.DryRunAll)
	}
	row.first(u)
	u = s.inVersion(t, u)
	if err := s.Create(t.Context(), u); err != nil {
		t.Fatalf("the first object must be taken: %v", err)
	}
	t.Cleanup(func() {
		if err := client.IgnoreNotFound(s.Delete(context.WithoutCancel(t.Context()), u)); err != nil {
			t.Error(err)
		}
	})
	changed := parse(t, manifest)
	row.first(changed)
	row.edit(changed)
	changed.SetResourceVersion(u.GetResourceVersion())
	return s.Update(t.Context(), s.inVersion(t, changed), client.DryRunAll)
}

// inVersion returns the object as it is sent.
func (s *server) inVersion(t *testing.T, u *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	if s.version == "" {
		return u
	}
	version := schema.GroupVersion{Group: u.GroupVersionKind().Group, Version: s.version}
	converted, err := conversion.Convert(u, version.String())
	if err != nil {
		t.Fatal(err)
	}
	return converted.DeepCopy()
}

// named gives the object a name of its own.
func named(name string) edit {
	return func(u *unstructured.Unstructured) { u.SetName(name) }
}

// nested reads a number of an object.
func nested(t *testing.T, u *unstructured.Unstructured, path string) int64 {
	t.Helper()
	value, found, err := unstructured.NestedInt64(u.Object, strings.Split(path, ".")...)
	if err != nil || !found {
		t.Fatalf("%s: found %t, %v", path, found, err)
	}
	return value
}
