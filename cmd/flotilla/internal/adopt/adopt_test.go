package adopt

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/apis/crds"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/hub"
)

const web = `
apiVersion: apps.kruise.io/v1beta1
kind: CloneSet
metadata: {name: web, namespace: default, labels: {team: shop}}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: "web:1"}]}
`

// TestAdopt runs the verb against a hub and two members: first dry, then for good, then where it must refuse.
func TestAdopt(t *testing.T) {
	f := fleet.ForTest(t, fleet.Config{Members: []fleet.ClusterSpec{{Name: "east"}, {Name: "west"}}})
	scheme, err := hub.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	clients := map[string]client.Client{}
	config := clientcmdapi.NewConfig()
	for name, cluster := range map[string]*fleet.Cluster{"hub": f.Hub(), "east": f.Member("east"),
		"west": f.Member("west")} {
		if err := cluster.InstallCRDs(t.Context(), crds.FS); err != nil {
			t.Fatal(err)
		}
		if clients[name], err = client.New(cluster.RESTConfig(), client.Options{Scheme: scheme}); err != nil {
			t.Fatal(err)
		}
		one, err := clientcmd.LoadFromFile(cluster.Kubeconfig())
		if err != nil {
			t.Fatal(err)
		}
		current := one.Contexts[one.CurrentContext]
		config.Clusters[name], config.AuthInfos[name] = one.Clusters[current.Cluster], one.AuthInfos[current.AuthInfo]
		config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	}
	config.CurrentContext = "hub"
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"east", "west"} {
		m := &topology.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: topology.MemberClusterSpec{Accepted: true}}
		if err := clients["hub"].Create(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		for _, condition := range []string{topology.MemberAccepted, topology.MemberReady} {
			m.Status.Conditions = append(m.Status.Conditions,
				metav1.Condition{Type: condition, Status: metav1.ConditionTrue, Reason: "Test", LastTransitionTime: metav1.Now()})
		}
		if err := clients["hub"].Status().Update(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	set := func(cluster, name, image string) {
		t.Helper()
		// As kubectl sends it: the Go type adds scaleStrategy: {}, to which this API server, which converts nothing, adds a
		// default of v1alpha1.
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(strings.NewReplacer("name: web", "name: "+name, "web:1", image).Replace(web)),
			&object.Object); err != nil {
			t.Fatal(err)
		}
		if err := clients[cluster].Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	set("east", "web", "web:1")
	set("west", "web", "web:1")
	set("east", "two", "web:1")
	set("west", "two", "web:2")
	set("hub", "other", "web:9")
	set("east", "other", "web:1")
	set("west", "other", "web:1")
	set("east", "lone", "web:1")
	verb := func(args ...string) (string, error) {
		t.Helper()
		command := NewCommand()
		var out bytes.Buffer
		command.SetOut(&out)
		command.SetErr(os.Stderr)
		command.SilenceUsage, command.SilenceErrors = true, true
		command.SetArgs(append(args, "-n", corev1.NamespaceDefault, "--kubeconfig", kubeconfig))
		err := command.ExecuteContext(t.Context())
		return out.String(), err
	}
	stands := func() *apps.CloneSet {
		object := &apps.CloneSet{}
		if err := clients["hub"].Get(t.Context(), client.ObjectKey{Namespace: corev1.NamespaceDefault, Name: "web"},
			object); client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		return object
	}

	policy := &topology.FederationPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceDefault, Name: "all"},
		Spec:       topology.FederationPolicySpec{Workloads: []topology.WorkloadSelector{{Kind: "CloneSet"}}},
	}
	refused := func(says, args string) {
		t.Helper()
		if out, err := verb(strings.Fields(args)...); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v does not say %q\n%s", args, err, says, out)
		}
	}
	refused("no policy selects CloneSet default/web: create a FederationPolicy", "cs/web --from east,west")
	if err := clients["hub"].Create(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	refused("FederationPolicy all selects west too, which --from does not name", "cs/web --from east --dry-run")
	only := func(names ...string) {
		t.Helper()
		base := policy.DeepCopy()
		policy.Spec.Clusters.Names = names
		if err := clients["hub"].Patch(t.Context(), policy, client.MergeFrom(base)); err != nil {
			t.Fatal(err)
		}
	}
	only("east")
	refused("FederationPolicy all does not select west", "cs/web --from east,west")
	if stands().Name != "" {
		t.Error("what was refused was written")
	}
	only()

	out, err := verb("cs/web", "--from", "east,west=west", "--dry-run")
	if err != nil || !strings.Contains(out, "CloneSet default/web in east: 3 replicas, 0 pods would restart") ||
		!strings.Contains(out, "in west: 3 replicas, 0 pods") ||
		strings.Contains(out, "would change") || !strings.Contains(out, "nothing was written") || stands().Name != "" {
		t.Errorf("dry run: %v\n%s", err, out)
	}
	out, err = verb("cs/web", "--from", "east,west")
	object := stands()
	if err != nil || object.Annotations[topology.AnnotationAdopt] != "true" || *object.Spec.Replicas != 6 ||
		object.Labels["team"] != "shop" {
		t.Errorf("for good: %v\n%s%+v", err, out, object)
	}
	for says, args := range map[string]string{
		"has another pod template in west than in east": "cs/two --from east,west",
		"pods would restart":                            "cs/other --from east,west --dry-run",
		"does not run in west":                          "cs/lone --from west",
		"north is no member of this hub":                "cs/web --from north",
		"write MEMBER=CONTEXT":                          "cs/web --from east=nowhere",
		"give the members":                              "cs/web",
		"names east twice":                              "cs/web --from east,east",
	} {
		refused(says, args)
	}
}
