package main

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/flotilla-dev/flotilla/apis/manifests"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/apis/warnings"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/check"
	"github.com/flotilla-dev/flotilla/e2e/apiserver"
	"github.com/flotilla-dev/flotilla/e2e/wording"
	"github.com/flotilla-dev/flotilla/hub"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/policy"
)

// site is an API server of a hub with two members, on which no program runs.
type site struct {
	*testing.T
	client.Client
	kubeconfig string

	mu    sync.Mutex
	heard []string
}

func (s *site) HandleWarningHeader(_ int, _, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = append(s.heard, text)
}

func newSite(t *testing.T) *site {
	ctrllog.SetLogger(logr.Discard()) // as the program does
	s := &site{T: t, kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	config := rest.CopyConfig(apiserver.ForTest(t))
	config.WarningHandler = s
	scheme, err := hub.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	if s.Client, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	raw := clientcmdapi.NewConfig()
	raw.Clusters["hub"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	raw.AuthInfos["hub"] = &clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}
	raw.Contexts["hub"] = &clientcmdapi.Context{Cluster: "hub", AuthInfo: "hub"}
	raw.CurrentContext = "hub"
	if err := clientcmd.WriteToFile(*raw, s.kubeconfig); err != nil {
		t.Fatal(err)
	}
	s.fill()
	return s
}

// fill creates what the inputs need: two namespaces, two members, and the policy of warnings.
func (s *site) fill() {
	s.Helper()
	for name, labels := range map[string]map[string]string{"shop": {topology.LabelFederated: "true"}, "local": nil} {
		s.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}})
	}
	for _, name := range []string{"east", "west"} {
		m := &topology.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
		m.Spec.Accepted = true
		s.create(m)
		m.Status.Region, m.Status.Zones = "eu", []topology.Zone{{Name: "a"}, {Name: "b"}}
		now := metav1.Now()
		for _, kind := range []string{topology.MemberAccepted, topology.MemberReady} {
			m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue,
				Reason: "Fine", LastTransitionTime: now})
		}
		if err := s.Status().Update(s.Context(), m); err != nil {
			s.Fatal(err)
		}
	}
	objects, err := warnings.Hub(true)
	if err != nil {
		s.Fatal(err)
	}
	for _, object := range objects {
		s.create(object)
	}
	apiserver.Eventually(s.T, time.Minute, "the API server warns", func() string {
		if len(s.warns(cloneSet("local"))) == 0 {
			return "no warning"
		}
		return ""
	})
}

func (s *site) create(object client.Object) {
	s.Helper()
	if err := s.Create(s.Context(), object); err != nil {
		s.Fatalf("create %T: %v", object, err)
	}
}

func (s *site) decode(text string) *unstructured.Unstructured {
	s.Helper()
	objects, err := manifests.Decode(text)
	if err != nil || len(objects) != 1 {
		s.Fatalf("%d objects in %s: %v", len(objects), text, err)
	}
	return objects[0]
}

// warns returns the warnings about an object that is created, without the name of the policy.
func (s *site) warns(text string) []string {
	s.Helper()
	s.take()
	object := s.decode(text)
	if err := s.Create(s.Context(), object); err != nil {
		return []string{err.Error()}
	}
	var all []string
	for _, warning := range s.take() {
		_, sentence, _ := strings.Cut(warning, "with binding 'flotilla-hub-warnings': ")
		all = append(all, sentence)
	}
	if err := s.Delete(s.Context(), object); err != nil {
		s.Fatal(err)
	}
	return all
}

// take returns the warnings since it was called last.
func (s *site) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	heard := s.heard
	s.heard = nil
	return heard
}

// rejects returns what the API server says of an object that it does not accept, without the path and the value.
func (s *site) rejects(text string) []string {
	s.Helper()
	err := s.Create(s.Context(), s.decode(text))
	if err == nil {
		return nil
	}
	return []string{regexp.MustCompile(`^.*?Invalid value: ("[^"]*"|\S+): `).ReplaceAllString(err.Error(), "")}
}

// condition returns the message of the condition that a hub writes on a policy.
func (s *site) condition(text string) []string {
	s.Helper()
	object := s.decode(text)
	if err := s.Create(s.Context(), object); err != nil {
		return []string{err.Error()}
	}
	rules := kinds.All(kinds.HubRunsBuiltIns)
	key := policy.Key{Kind: object.GetKind(), Namespace: object.GetNamespace(), Name: object.GetName()}
	ready, err := policy.Condition(s.Context(), s.Client, rules, key)
	if err != nil {
		s.Fatal(err)
	}
	if err := s.Delete(s.Context(), object); err != nil {
		s.Fatal(err)
	}
	// The list of kinds is a list of names.
	return []string{strings.ReplaceAll(ready.Message, kinds.Names(rules), "(kinds)")}
}

// verb returns the error of a command line.
func (s *site) verb(line string) []string {
	s.Helper()
	command := newCommand(&strings.Builder{})
	command.SetErr(&strings.Builder{})
	command.SetArgs(strings.Fields(line))
	if err := command.ExecuteContext(s.Context()); err != nil {
		return []string{err.Error()}
	}
	return nil
}

const (
	podSpec  = `{metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}`
	scaled   = `{replicas: 2, selector: {matchLabels: {a: b}}, template: ` + podSpec + `}`
	once     = `{template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}`
	selected = `{minAvailable: 1, selector: {matchLabels: {a: b}}}`
)

func manifest(kind, apiVersion, namespace, spec string) string {
	in := "namespace: " + namespace
	if namespace == "" {
		in = "labels: {}"
	}
	return "apiVersion: " + apiVersion + "\nkind: " + kind + "\nmetadata: {name: web, " + in + "}\nspec: " + spec
}

func cloneSet(namespace string) string {
	return manifest("CloneSet", "apps.kruise.io/v1beta1", namespace, scaled)
}

// placing is a FederationPolicy of a namespace that selects CloneSets, with more fields.
func placing(namespace, more string) string {
	return manifest("FederationPolicy", topology.GroupVersion.String(), namespace,
		"{workloads: [{kind: CloneSet}]"+more+"}")
}

func naming(workload string) string {
	return manifest("FederationPolicy", topology.GroupVersion.String(), "shop", "{workloads: ["+workload+"]}")
}

// checked is a policy with a wave that has this check.
func checked(fields string) string {
	return placing("shop", ", rollout: {strategy: Waves, waves: [{name: canary, checks: [{name: ok, "+fields+"}]}]}")
}

// TestWrongInputs holds that each wrong input is answered with one sentence that names the object and the remedy.
func TestWrongInputs(t *testing.T) {
	s := newSite(t)
	t.Setenv("KUBECONFIG", s.kubeconfig)
	const hpa = "{maxReplicas: 3, scaleTargetRef: {apiVersion: apps.kruise.io/v1beta1, kind: CloneSet, name: web}}"
	for name, c := range map[string]struct {
		says  func(string) []string
		input string
		want  string
	}{
		// An API server warns.
		"a workload without the label": {s.warns, cloneSet("local"), "kubectl label namespace local topology.flotilla.dev/"},
		"a SidecarSet without the label": {s.warns, manifest("SidecarSet", "apps.kruise.io/v1beta1", "",
			"{selector: {matchLabels: {a: b}}, containers: [{name: c, image: i}]}"), "kubectl label sidecarset web"},
		"an EphemeralJob": {s.warns, manifest("EphemeralJob", "apps.kruise.io/v1alpha1", "shop", `{selector: {matchLabels:
  {a: b}}, template: {ephemeralContainers: [{name: d, image: i, terminationMessagePolicy: File}]}}`),
			"apply it in the member"},
		"a Deployment":  {s.warns, manifest("Deployment", "apps/v1", "shop", scaled), "write a CloneSet"},
		"a StatefulSet": {s.warns, manifest("StatefulSet", "apps/v1", "shop", scaled), "write a StatefulSet of apps.kruise"},
		"a DaemonSet": {s.warns, manifest("DaemonSet", "apps/v1", "shop", "{selector: {matchLabels: {a: b}}, template: "+
			podSpec+"}"), "write a DaemonSet of apps.kruise.io"},
		"a Job": {s.warns, manifest("Job", "batch/v1", "shop", once), "write a BroadcastJob"},
		"a CronJob": {s.warns, manifest("CronJob", "batch/v1", "shop", `{schedule: "0 0 * * *", jobTemplate: {spec: `+once+
			"}}"), "write a AdvancedCronJob"},
		"a PodDisruptionBudget": {s.warns, manifest("PodDisruptionBudget", "policy/v1", "shop", selected),
			"write a PodUnavailableBudget"},
		"an Ingress": {s.warns, manifest("Ingress", "networking.k8s.io/v1", "shop",
			"{defaultBackend: {service: {name: s, port: {number: 80}}}}"), "create it in each member"},
		"an autoscaler by CPU": {s.warns, manifest("HorizontalPodAutoscaler", "autoscaling/v2", "shop", hpa),
			"use External, or Object with averageValue"},
		"a policy without the label": {s.warns, placing("local", ""), "this FederationPolicy places nothing"},
		"a policy with a mistyped kind": {s.warns, naming("{kind: Clonset}"),
			"names Clonset, which a hub does not know: correct spec.workloads"},
		"a policy with a kind of pods":   {s.warns, naming("{kind: ContainerRecreateRequest}"), "apply it in the member"},
		"a policy with a Deployment":     {s.warns, naming("{kind: Deployment}"), "such as CloneSet"},
		"a policy with Kubernetes' Jobs": {s.warns, naming("{kind: Job, apiVersion: batch/v1}"), "names Job of Kubernetes"},

		// A condition of the policy.
		"the same, as a condition": {s.condition, placing("local", ""),
			"kubectl label namespace local topology.flotilla.dev/federated=true"},
		"an unknown kind, as a condition": {s.condition, naming("{kind: Clonset}"),
			"FederationPolicy web names Clonset (apps.kruise.io): not placed on members; the kinds that work are (kinds)"},
		"a kind of several groups": {s.condition, naming("{kind: StatefulSet}"),
			"write apiVersion: apps/v1 or apiVersion: apps.kruise.io/v1beta1"},
		"a kind without namespaces": {s.condition, naming("{kind: SidecarSet}"), "name it in a ClusterFederationPolicy"},
		"Secrets that stay":         {s.condition, naming("{kind: Secret}"), "spec.dependencies.secrets: Carry"},
		"an unknown cluster": {s.condition, placing("shop", ", clusters: {names: [eest]}"),
			"clusters.names: there is no member eest; correct the name, or let that member join"},
		"an unknown zone": {s.condition, placing("shop", ", spread: {places: [{zone: q, min: 1}]}"),
			"spread.places: no member has zone q"},
		"an unknown region": {s.condition, placing("shop", ", spread: {places: [{region: mars, min: 1}]}"),
			"no member lies in region mars"},
		"a wave of an unknown zone": {s.condition,
			placing("shop", ", rollout: {strategy: Waves, waves: [{name: canary, zones: [q]}]}"),
			"wave canary of rollout.waves: no member has zone q"},
		"CEL that is not CEL": {s.condition, checked(`expression: "object.spec.replicas >"`),
			"check ok of wave canary can never hold: its expression is not valid: Syntax error"},
		"CEL with an unknown variable": {s.condition, checked(`http: {url: "https://a", expression: "body == 1"}`),
			"undeclared reference to 'body'"},
		"CEL that is no condition": {s.condition, checked(`expression: "pods('a=b')"`), "is no true or false"},
		"several mistakes": {s.condition, placing("local", ", clusters: {names: [eest]}"),
			"(2) these names match nothing"},

		// A rule of the definition.
		"an address that is none": {s.rejects, checked(`http: {url: "file:///etc/passwd"}`),
			"url file:///etc/passwd is no address that can be asked"},
		"a wave of no size": {s.rejects,
			placing("shop", ", rollout: {strategy: Waves, waves: [{name: canary, size: 0}]}"),
			"size is 0: it must be a number of pods from 1"},

		// An error of a verb.
		"a workload without its kind":  {s.verb, "why web", "write KIND/NAME, as in ud/web"},
		"a kind that no hub places":    {s.verb, "why pod/web", `"pod" is no kind that the hub places: name the workload`},
		"a kind of one cluster":        {s.verb, "why ephemeraljob/web", "apply the EphemeralJob in the member that runs"},
		"a kind of Kubernetes":         {s.verb, "why deployment/web", "put the pod template into a UnitedDeployment"},
		"a workload that is not there": {s.verb, "why clone/none -n shop", "there is no CloneSet shop/none"},
		"a form that there is not":     {s.verb, "tree -o xml", "it can be text, json or yaml"},
		"a mistyped verb":              {s.verb, "rolout status clone/web", "did you mean rollout?"},
		"a member that there is not":   {s.verb, "drain eest", "eest"},
		"a context that there is not": {s.verb, "tree --context prod",
			`your kubeconfig has no context "prod"; it has hub`},
		"logs without the member":       {s.verb, "logs web-1 -n shop", "member"},
		"a plan without a file":         {s.verb, "plan web.yaml", "write flotilla plan -f FILE"},
		"a question with two arguments": {s.verb, "why clone web", "write clone/web"},
	} {
		t.Run(name, func(t *testing.T) {
			got := c.says(c.input)
			if len(got) != 1 || !strings.Contains(got[0], c.want) {
				t.Fatalf("it says %q, want one sentence with %q", got, c.want)
			}
			// Names that are listed come on top of the length; of several mistakes each is a sentence.
			text, _, _ := strings.Cut(got[0], "; the kinds are ")
			for sentence := range strings.SplitSeq(text, "; (") {
				if wrong := wording.Wrong(sentence); wrong != "" {
					t.Errorf("%s: %s", sentence, wrong)
				}
			}
		})
	}
	t.Run("check", func(t *testing.T) { s.checks(t) })
}

// checks holds what `flotilla check` finds on a hub where a lot is wrong: each finding once, with its remedy.
func (s *site) checks(t *testing.T) {
	longAgo := metav1.NewMicroTime(time.Now().Add(-time.Hour))
	s.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: topology.SystemNamespace}})
	s.create(&coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: topology.SystemNamespace, Name: "flotilla-hub"},
		Spec:       coordinationv1.LeaseSpec{RenewTime: &longAgo, HolderIdentity: new("pod-1")}})
	for _, text := range []string{cloneSet("local"), manifest("Deployment", "apps/v1", "shop", scaled),
		manifest("PodDisruptionBudget", "policy/v1", "shop", selected)} {
		s.create(s.decode(text))
	}
	stalled := s.decode(cloneSet("shop"))
	s.create(stalled)
	_ = unstructured.SetNestedSlice(stalled.Object, []any{map[string]any{"type": "Stalled", "status": "True",
		"reason": "NoPolicy", "message": "no policy selects CloneSet shop/web; create one that does",
		"lastTransitionTime": longAgo.UTC().Format(time.RFC3339)}}, "status", "conditions")
	if err := s.Status().Update(t.Context(), stalled); err != nil {
		t.Fatal(err)
	}
	wants := map[string][3]string{
		"flotilla-hub":        {"error", "it does not run: its Lease was not renewed for 1h", "kubectl logs"},
		"namespace local":     {"error", "no member gets its 1 workload (CloneSet web)", "kubectl label namespace local"},
		"CloneSet shop/web":   {"error", "it is stalled: NoPolicy", "flotilla why cloneset/web -n shop --context hub"},
		"Deployment shop/web": {"warning", "no member gets it", "CloneSet"},
		"policies":            {"warning", "there is none", "create a FederationPolicy"},
		"member east":         {"error", "its agent has no Lease", "kubectl logs"},
		"PodDisruptionBudget shop/web": {"warning", "it counts the pods of the hub's own cluster",
			"create a PodUnavailableBudget"},
	}
	apiserver.Eventually(t, time.Minute, "check finds it all", func() string {
		out := &strings.Builder{}
		command := newCommand(out)
		command.SetArgs([]string{"check", "-o", "json", "--context", "hub"})
		err := command.ExecuteContext(t.Context())
		var results []check.Result
		if wrong := json.Unmarshal([]byte(out.String()), &results); wrong != nil {
			t.Fatalf("%v in %s (%v)", wrong, out, err)
		}
		if err == nil {
			return "check succeeds"
		}
		for name, want := range wants {
			found := func(r check.Result) bool {
				return r.Name == name && r.Outcome == want[0] && strings.Contains(r.Found, want[1]) &&
					strings.Contains(r.Hint, want[2]) && wording.Wrong(r.Found) == "" && wording.Wrong(r.Hint) == ""
			}
			if !slices.ContainsFunc(results, found) {
				return name + " is not among " + out.String()
			}
		}
		return ""
	})
}
