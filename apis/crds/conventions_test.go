package crds_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/flotilla-dev/flotilla/apis/crds"
)

// definitions returns every CustomResourceDefinition by its kind.
func definitions(t *testing.T) map[string]*unstructured.Unstructured {
	t.Helper()
	list, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	byKind := map[string]*unstructured.Unstructured{}
	for _, crd := range list {
		kind, _, err := unstructured.NestedString(crd.Object, "spec", "names", "kind")
		if err != nil || crd.GetKind() != "CustomResourceDefinition" {
			t.Fatalf("%s is a %s, names.kind: %v", crd.GetName(), crd.GetKind(), err)
		}
		byKind[kind] = crd
	}
	return byKind
}

func versions(t *testing.T, crd *unstructured.Unstructured) []map[string]any {
	t.Helper()
	list, found, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	if err != nil || !found {
		t.Fatalf("%s: versions: %v", crd.GetName(), err)
	}
	var versions []map[string]any
	for _, v := range list {
		versions = append(versions, v.(map[string]any))
	}
	return versions
}

// ofV1alpha1Only precedes a column that v1beta1 lacks.
const ofV1alpha1Only = "v1alpha1:"

// TestNamesAndColumns pins what kubectl users type and see. Scripts read columns by position.
func TestNamesAndColumns(t *testing.T) {
	for kind, want := range map[string]struct {
		scope, short string // the short names with commas between them
		scale        bool
		columns      []string // wide ones in brackets
	}{
		"CloneSet": {"Namespaced", "clone", true, []string{"DESIRED", "UPDATED", "UPDATED_READY", "UPDATED_AVAILABLE",
			"READY", "TOTAL", "AGE",
			"[CONTAINERS]", "[IMAGES]", "[SELECTOR]"}},
		"StatefulSet": {"Namespaced", "sts,asts", true, []string{"DESIRED", "CURRENT", "UPDATED", "READY", "AGE",
			"[CONTAINERS]", "[IMAGES]"}},
		"DaemonSet": {"Namespaced", "daemon,ads", false, []string{"DESIRED", "CURRENT", "READY", "UP-TO-DATE", "AVAILABLE",
			"AGE", "[CONTAINERS]", "[IMAGES]"}},
		"BroadcastJob":         {"Namespaced", "bcj", false, []string{"Desired", "Active", "Succeeded", "Failed", "AGE"}},
		"AdvancedCronJob":      {"Namespaced", "acj", false, []string{"Schedule", "Type", "LastScheduleTime", "AGE"}},
		"PersistentPodState":   {"Namespaced", "", false, nil},
		"ResourceDistribution": {"Cluster", "distributor", false, []string{"TOTAL", "SUCCEED", "FAILED"}},
		"PodUnavailableBudget": {"Namespaced", "pub", false, []string{"Allowed", "Current", "Desired", "Total"}},
		"SidecarSet":           {"Cluster", "", false, []string{"MATCHED", "UPDATED", "READY", "AGE"}},
		"UnitedDeployment":     {"Namespaced", "ud", true, []string{"DESIRED", "CURRENT", "UPDATED", "READY", "AGE"}},
		"WorkloadSpread": {"Namespaced", "ws", false,
			[]string{"WorkloadName", "WorkloadKind", "Adaptive", "Age", "[Strategy]"}},
		"FederationPolicy":        {"Namespaced", "fp", false, []string{"READY", "REASON", "WORKLOADS", "SPREAD", "AGE"}},
		"ClusterFederationPolicy": {"Cluster", "cfp", false, []string{"READY", "REASON", "WORKLOADS", "SPREAD", "AGE"}},
		"MemberCluster": {"Cluster", "mc", false,
			[]string{"ACCEPTED", "READY", "REGION", "ZONES", "NODES", "VERSION", "AGE"}},
		"WorkloadPlacement": {"Namespaced", "wp", false,
			[]string{"KIND", "WORKLOAD", "REPLICAS", "PLACED", "CLUSTERS", "[POLICY]", "[SEQUENCE]", "AGE"}},
		"Work": {"Namespaced", "wk", false, []string{"Workload-Kind", "Workload-Name", "Applied", "Age"}},
		"ImagePullJob": {"Namespaced", "", false, []string{"TOTAL", "ACTIVE", "SUCCEED", "FAILED", "AGE",
			ofV1alpha1Only + "MESSAGE"}},
		"ImageListPullJob":         {"Namespaced", "", false, []string{"TOTAL", "SUCCEEDED", "COMPLETED", "AGE"}},
		"NodeImage":                {"Cluster", "", false, []string{"DESIRED", "PULLING", "SUCCEED", "FAILED", "AGE"}},
		"ContainerRecreateRequest": {"Namespaced", "crr", false, []string{"PHASE", "POD", "NODE", "AGE"}},
		"EphemeralJob": {"Namespaced", "ejob", false,
			[]string{"STATUS", "MATCH", "SUCCEED", "FAILED", "RUNNING", "WAITING", "AGE"}},
		"PodProbeMarker": {"Namespaced", "", false, nil},
		"NodePodProbe":   {"Cluster", "", false, nil},
	} {
		t.Run(kind, func(t *testing.T) {
			crd := definitions(t)[kind]
			if crd == nil {
				t.Fatal("there is no such definition")
			}
			short, _, _ := unstructured.NestedStringSlice(crd.Object, "spec", "names", "shortNames")
			scope, _, _ := unstructured.NestedString(crd.Object, "spec", "scope")
			if strings.Join(short, ",") != want.short || scope != want.scope {
				t.Errorf("short names %v, scope %s; want %s, %s", short, scope, want.short, want.scope)
			}
			for _, version := range versions(t, crd) {
				var columns []string
				list, _, _ := unstructured.NestedSlice(version, "additionalPrinterColumns")
				for _, c := range list {
					column := c.(map[string]any)
					name := column["name"].(string)
					if column["priority"] == int64(1) {
						name = "[" + name + "]"
					}
					columns = append(columns, name)
				}
				var wanted []string
				for _, name := range want.columns {
					name, older := strings.CutPrefix(name, ofV1alpha1Only)
					if !older || version["name"] == "v1alpha1" {
						wanted = append(wanted, name)
					}
				}
				if !slices.Equal(columns, wanted) {
					t.Errorf("columns %q, want %q", columns, wanted)
				}
				subresources, _, _ := unstructured.NestedMap(version, "subresources")
				if _, scale := subresources["scale"]; scale != want.scale || subresources["status"] == nil {
					t.Errorf("subresources %v, want status, and scale: %t", subresources, want.scale)
				}
			}
		})
	}
}

// maxSize is how many bytes a definition may have as JSON, which is what an API server stores and sends: etcd takes 1.5
// MB, and every client that lists definitions reads all of them.
const maxSize = 200_000

func TestDefinitionsAreSmall(t *testing.T) {
	for kind, crd := range definitions(t) {
		data, err := json.Marshal(crd.Object)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s has %d bytes", kind, len(data))
		if len(data) >= maxSize {
			t.Errorf("the definition of %s has %d bytes, at most %d are allowed", kind, len(data), maxSize)
		}
	}
}

// inherited are types of Kubernetes whose descriptions are not ours. Nullable fields, which have their types alone, are
// too.
var inherited = []string{".nodeSelectorTerm.", ".requiredNodeSelector", ".preferredNodeSelector", ".tolerations[].",
	".taints[].", ".exec.", ".httpGet.", ".tcpSocket.", ".grpc.", ".containers[].ports[]."}

// TestConventions finds properties that kubectl explain would not explain, lists that server-side apply could not merge
// as meant, rules without a sentence, and numbers and times that an API server takes and Go types do not: one in one
// object would keep every controller from reading the whole list.
func TestConventions(t *testing.T) {
	for kind, crd := range definitions(t) {
		for _, version := range versions(t, crd) {
			root, found, err := unstructured.NestedMap(version, "schema", "openAPIV3Schema")
			if err != nil || !found {
				t.Fatalf("%s: schema: %v", kind, err)
			}
			checkSchema(t, kind, root)
		}
	}
}

func checkSchema(t *testing.T, path string, node map[string]any) {
	if node["type"] == "array" && node["x-kubernetes-list-type"] == nil && !strings.HasSuffix(path, "{}") { // a value of a map is one whole
		t.Errorf("%s is a list without a list type", path)
	}
	isQuantity := node["x-kubernetes-preserve-unknown-fields"] == true && node["pattern"] != nil
	isAnything := strings.HasSuffix(path, ".patch[].value") // of a JSON patch
	if node["type"] == nil && node["x-kubernetes-int-or-string"] == nil && !isQuantity && !isAnything {
		t.Errorf("%s has no type", path)
	}
	if node["type"] == "integer" && node["format"] == nil || node["x-kubernetes-int-or-string"] == true &&
		(node["minimum"] == nil || node["maximum"] == nil) {
		t.Errorf("%s takes numbers that do not fit its Go type", path)
	}
	if node["format"] == "date-time" && node["pattern"] == nil {
		t.Errorf("%s takes times that its Go type does not", path)
	}
	rules, _ := node["x-kubernetes-validations"].([]any)
	for _, r := range rules {
		rule := r.(map[string]any)
		message, _ := rule["message"].(string)
		if !strings.Contains(message, " ") {
			t.Errorf("%s: rule %q has no sentence", path, rule["rule"])
		}
		if strings.ContainsAny(rule["rule"].(string), "@“”") {
			t.Errorf("%s: rule %q was not expanded, or was changed by gofmt", path, rule["rule"])
		}
	}
	properties, _ := node["properties"].(map[string]any)
	for name, p := range properties {
		child := p.(map[string]any)
		childPath := path + "." + name
		description, _ := child["description"].(string)
		ofRoot := !strings.Contains(path, ".") && slices.Contains([]string{"apiVersion", "kind", "metadata"}, name)
		isInherited := slices.ContainsFunc(inherited, func(part string) bool { return strings.Contains(childPath, part) })
		first := strings.TrimRight(strings.ToLower(strings.SplitN(description, " ", 2)[0]), ":")
		isInherited = isInherited || child["nullable"] == true
		if !ofRoot && !isInherited && first != strings.ToLower(name) {
			t.Errorf("%s: the description must start with the name: %q", childPath, description)
		}
		checkSchema(t, childPath, child)
	}
	if items, ok := node["items"].(map[string]any); ok {
		checkSchema(t, path+"[]", items)
	}
	if values, ok := node["additionalProperties"].(map[string]any); ok {
		checkSchema(t, path+"{}", values)
	}
}
