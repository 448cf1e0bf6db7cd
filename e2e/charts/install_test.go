//go:build e2e

package charts

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/e2e/page"
)

// patience is how long the test waits for what takes seconds on a quiet machine.
const patience = 5 * time.Minute

// own are workloads of a member, which no hub brings.
const own = `
apiVersion: apps.kruise.io/v1beta1
kind: UnitedDeployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    cloneSetTemplate:
      metadata: {labels: {app: web}}
      spec:
        selector: {matchLabels: {app: web}}
        template:
          metadata: {labels: {app: web}}
          spec: {containers: [{name: web, image: "nginx:1.27"}]}
  topology:
    subsets:
    - name: b
      nodeSelectorTerm: {matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [b]}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: deployed}}
  template:
    metadata: {labels: {app: deployed}}
    spec: {containers: [{name: web, image: "nginx:1.27"}]}
---
apiVersion: apps.kruise.io/v1beta1
kind: WorkloadSpread
metadata: {name: web}
spec:
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  subsets:
  - name: first
    maxReplicas: 1
  - name: second
`

// site is a hub and two clusters that are to be its members, and a person who follows docs/install.md.
type site struct {
	t     *testing.T
	fleet *fleet.Fleet
	// env is that of the person's shell: our programs, helm and kubectl, and a kubeconfig with the contexts hub, east and
	// west.
	env []string
	// root is the repository, docs the page by headings.
	root string
	docs map[string][]string
	// fingerprint is what flotilla join printed last.
	fingerprint string
	// running are the arguments that our programs run with, by their names in the fleet, as their Deployments say.
	running map[string][]string
}

// TestInstall follows docs/install.md: its commands, as they stand there, give a hub and two members with a workload
// over both; they upgrade, roll back and uninstall, and no pod of the workload ends by that. The programs run as the
// ServiceAccounts of the charts with the arguments of their Deployments; as nodes are simulated, the test starts them
// in place of a kubelet.
func TestInstall(t *testing.T) {
	s := newSite(t)
	for _, name := range []string{fleet.HubName, "east"} {
		s.restricted(s.fleet.Cluster(name))
	}

	s.follow("The hub")
	s.expectRolledOut(fleet.HubName, "flotilla-approver")
	s.expectKept(fleet.HubName)
	s.expectGuarded(fleet.HubName, "flotilla-hub")
	s.expectGuarded(fleet.HubName, "flotilla-approver")

	east := s.commands("A member")
	s.do("east", east[:len(east)-1]...)
	s.expectRolledOut("east", "flotilla-agent")
	// In west, flotilla join comes before the chart.
	west := s.commands("A member")
	s.do("west", west[0], west[2], west[len(west)-1], west[3])
	s.expectRolledOut("west", "flotilla-agent")
	s.expectGuarded("west", "flotilla-agent")

	s.follow("A workload")
	s.expectQueued("flotilla-member-health", "flotilla-members", "flotilla-hub")
	pods := s.podsOf("east", "west")
	for _, member := range []string{"east", "west"} {
		if n := len(s.podsOf(member)); n < 4 || n > 5 {
			t.Errorf("%s has %d pods of 9, want 4 or 5", member, n)
		}
	}

	s.follow("Upgrade")
	s.run("helm upgrade flotilla-hub charts/flotilla-hub --namespace flotilla-system --set log.level=debug --set " +
		"hub.replicas=3")
	s.expectRolledOut(fleet.HubName, "flotilla-hub")
	s.expectRuns(fleet.HubName, "flotilla-hub", 3, "--log-level=debug")
	s.follow("Roll back")
	s.expectRolledOut(fleet.HubName, "flotilla-hub")
	s.expectRuns(fleet.HubName, "flotilla-hub", 2, "--log-level=info")
	s.expectSame(pods, "upgrade and rollback")

	s.run("kubectl --namespace shop scale clone/api --replicas=10")
	s.eventually("10 pods, by a hub that was upgraded and rolled back", func(context.Context) string {
		if n := len(s.podsOf("east", "west")); n != 10 {
			return fmt.Sprintf("there are %d", n)
		}
		return ""
	})

	// The owner of west lets the hub bring nothing but CloneSets there: with rights for these alone the agent goes on,
	// also with west's own workloads. The rules were written by flotilla join first: Helm asks whether it may change them.
	s.run("helm upgrade flotilla-agent charts/flotilla-agent --kube-context west --namespace flotilla-system --set " +
		"'hub.allowKinds={CloneSet}' --force-conflicts")
	s.expectRolledOut("west", "flotilla-agent")
	s.expectRuns("west", "flotilla-agent", 2, "--allow-kinds=CloneSet")
	s.run("kubectl --context west create namespace own")
	s.run("kubectl --context west --namespace own apply -f - <<'EOF'\n" + own + "EOF")
	s.run("kubectl --context west --namespace own wait ud/web ws/web --for=condition=Ready --timeout=4m")
	s.run("kubectl --namespace shop scale clone/api --replicas=12")
	s.eventually("12 pods, by an agent with rights for CloneSets alone", func(context.Context) string {
		if n, w := len(s.podsOf("east", "west")), len(s.podsOf("west")); n != 12 || w != 6 {
			return fmt.Sprintf("there are %d, and %d in west", n, w)
		}
		return ""
	})
	s.expectGranted(slices.Sorted(maps.Keys(s.running))...)

	s.follow("Uninstall")
	s.eventually("what east had is in west", func(context.Context) string {
		if e, w := len(s.podsOf("east")), len(s.podsOf("west")); e != 0 || w != 12 {
			return fmt.Sprintf("east has %d pods and west %d", e, w)
		}
		return ""
	})
	pods = s.podsOf("west")
	s.run("helm uninstall flotilla-agent --kube-context west --namespace flotilla-system")
	for _, name := range []string{fleet.HubName, "east", "west"} {
		s.run("helm uninstall flotilla-crds --kube-context " + name + " --namespace flotilla-system")
		s.expectGone(name)
		s.expectKept(name)
	}
	s.expectSame(pods, "uninstall")
	s.run("kubectl --namespace shop get clone/api")
}

func newSite(t *testing.T) *site {
	t.Helper()
	log.SetLogger(logr.Discard())
	f := fleet.ForTest(t, fleet.Config{
		KeepQPSLimits: true, // else API servers know no priority and fairness, and the hub's FlowSchemas do nothing
		Hub:           fleet.ClusterSpec{Nodes: fleet.Nodes(fleet.HubName, "eu", []string{"a"}, 2)},
		Members: []fleet.ClusterSpec{
			{Name: "east", Nodes: fleet.Nodes("east", "eu", []string{"a"}, 2)},
			{Name: "west", Nodes: fleet.Nodes("west", "eu", []string{"b"}, 2)},
		},
	})
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	docs, err := page.Commands(filepath.Join(root, "docs", "install.md"))
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, fleet: f, root: root, docs: docs, running: map[string][]string{}}
	bin, err := filepath.Abs(f.Bin())
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	s.env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "KUBECONFIG="+s.kubeconfig(),
		"HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	return s
}

// kubeconfig writes one file with a context for each cluster, the hub's being the current one, and returns its path.
func (s *site) kubeconfig() string {
	s.t.Helper()
	all := clientcmdapi.NewConfig()
	for _, c := range s.fleet.Clusters() {
		one, err := clientcmd.LoadFromFile(c.Kubeconfig())
		if err != nil {
			s.t.Fatal(err)
		}
		at := one.Contexts[one.CurrentContext]
		all.Clusters[c.Name], all.AuthInfos[c.Name] = one.Clusters[at.Cluster], one.AuthInfos[at.AuthInfo]
		all.Contexts[c.Name] = &clientcmdapi.Context{Cluster: c.Name, AuthInfo: c.Name}
	}
	all.CurrentContext = fleet.HubName
	path := filepath.Join(s.fleet.Dir, "kubeconfigs", "person.yaml")
	if err := clientcmd.WriteToFile(*all, path); err != nil {
		s.t.Fatal(err)
	}
	return path
}

// commands returns the commands of a section of the page.
func (s *site) commands(heading string) []string {
	s.t.Helper()
	if len(s.docs[heading]) == 0 {
		s.t.Fatalf("docs/install.md has no commands under %q", heading)
	}
	return s.docs[heading]
}

// follow runs the commands of a section in their order.
func (s *site) follow(heading string) {
	s.t.Helper()
	for _, command := range s.commands(heading) {
		s.run(command)
	}
}

// do runs commands of the page for the member that is to join: the page has them for east.
func (s *site) do(member string, commands ...string) {
	s.t.Helper()
	for _, command := range commands {
		s.run(strings.ReplaceAll(command, "east", member))
	}
}

// run runs a command as a person does, in the repository, and then lets the nodes do what comes of it. It returns what
// was printed.
func (s *site) run(command string) string {
	s.t.Helper()
	command = strings.ReplaceAll(command, "sha256:...", s.fingerprint)
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	began := time.Now()
	cmd := exec.CommandContext(ctx, "bash", "-c", command)
	cmd.Dir, cmd.Env = s.root, s.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		for name := range s.running {
			s.t.Logf("the end of the log of %s:\n%s", name, s.fleet.LogTail(name, 15))
		}
		s.t.Fatalf("$ %s\n%v\n%s", command, err, out)
	}
	s.t.Logf("%5.1f s  $ %s", time.Since(began).Seconds(), command)
	if found := regexp.MustCompile(`sha256:[0-9a-f]{64}`).FindString(string(out)); found != "" {
		s.fingerprint = found
	}
	s.kubelets()
	return string(out)
}

// kubelets does the work of nodes, which are simulated: it starts the programs of the charts' Deployments, and ends
// those that run with other arguments or have no Deployment any more. One runs of each.
func (s *site) kubelets() {
	s.t.Helper()
	wanted := map[string]*appsv1.Deployment{}
	clusters := map[string]*fleet.Cluster{}
	for _, c := range s.fleet.Clusters() {
		all, err := s.core(c).AppsV1().Deployments(namespace).List(s.t.Context(), metav1.ListOptions{})
		if err != nil {
			s.t.Fatal(err)
		}
		for i := range all.Items {
			d := &all.Items[i]
			if name := d.Name + "-" + c.Name; s.hasSecrets(c, d) {
				wanted[name], clusters[name] = d, c
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.running)) {
		d := wanted[name]
		if d != nil && slices.Equal(d.Spec.Template.Spec.Containers[0].Args, s.running[name]) {
			continue
		}
		if d != nil { // else its rights went with it
			s.expectGranted(name)
		}
		if err := s.fleet.Quit(s.t.Context(), name); err != nil {
			s.t.Fatal(err)
		}
		delete(s.running, name)
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if s.running[name] == nil {
			s.start(name, clusters[name], wanted[name])
		}
	}
}

// hasSecrets tells whether the Secrets are there that the pods need to start.
func (s *site) hasSecrets(c *fleet.Cluster, d *appsv1.Deployment) bool {
	s.t.Helper()
	for _, env := range d.Spec.Template.Spec.Containers[0].Env {
		if env.ValueFrom == nil || env.ValueFrom.SecretKeyRef == nil {
			continue
		}
		ref := env.ValueFrom.SecretKeyRef
		secret, err := s.core(c).CoreV1().Secrets(namespace).Get(s.t.Context(), ref.Name, metav1.GetOptions{})
		if client.IgnoreNotFound(err) != nil {
			s.t.Fatal(err)
		}
		if err != nil || len(secret.Data[ref.Key]) == 0 {
			return false
		}
	}
	return true
}

// start starts the program of a Deployment with a token of its ServiceAccount, and waits until it is ready.
func (s *site) start(name string, c *fleet.Cluster, d *appsv1.Deployment) {
	s.t.Helper()
	container := &d.Spec.Template.Spec.Containers[0]
	program, _, _ := strings.Cut(container.Image, ":")
	ports, err := s.fleet.FreePorts(2)
	if err != nil {
		s.t.Fatal(err)
	}
	args := append(slices.Clone(container.Args), "--kubeconfig="+s.account(c, d.Spec.Template.Spec.ServiceAccountName),
		fmt.Sprintf("--metrics-bind-address=127.0.0.1:%d", ports[0]),
		fmt.Sprintf("--health-probe-bind-address=127.0.0.1:%d", ports[1]))
	if slices.ContainsFunc(container.Ports, func(p corev1.ContainerPort) bool { return p.Name == "webhook" }) {
		args = append(args, "--webhook-bind-address="+c.WebhookAddress())
	}
	wanted := fleet.Program{Name: name, Path: filepath.Join(s.fleet.Bin(), program), Args: args}
	s.eventually(name+" is ready", func(ctx context.Context) string {
		// As a kubelet does, it starts again what has ended: definitions are served a moment after they were made.
		if err := s.fleet.Run(wanted); err != nil {
			return err.Error()
		}
		if err := s.fleet.WaitReady(ctx, name); err != nil {
			return err.Error()
		}
		return ""
	})
	s.running[name] = container.Args
}

// account returns the path of a kubeconfig with a token of the ServiceAccount.
func (s *site) account(c *fleet.Cluster, name string) string {
	s.t.Helper()
	token, err := s.core(c).CoreV1().ServiceAccounts(namespace).CreateToken(s.t.Context(), name,
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	config := c.RESTConfig()
	// It is in the fleet's folder: by that the program is known when the fleet is cleared away.
	path := filepath.Join(s.fleet.Dir, "kubeconfigs", c.Name+"-account-"+name+".yaml")
	err = clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{c.Name: {Server: config.Host,
			CertificateAuthorityData: config.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: {Token: token.Status.Token}},
		Contexts:       map[string]*clientcmdapi.Context{c.Name: {Cluster: c.Name, AuthInfo: name}},
		CurrentContext: c.Name,
	}, path)
	if err != nil {
		s.t.Fatal(err)
	}
	return path
}

func (s *site) core(c *fleet.Cluster) kubernetes.Interface {
	s.t.Helper()
	core, err := kubernetes.NewForConfig(c.RESTConfig())
	if err != nil {
		s.t.Fatal(err)
	}
	return core
}

func (s *site) eventually(what string, problem func(ctx context.Context) string) {
	s.t.Helper()
	fleet.Eventually(s.t, patience, what, problem, nil)
}

// restricted makes the namespace of the programs, which admits restricted pods alone.
func (s *site) restricted(c *fleet.Cluster) {
	s.t.Helper()
	system := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace,
		Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}}
	if _, err := s.core(c).CoreV1().Namespaces().Create(s.t.Context(), system, metav1.CreateOptions{}); err != nil {
		s.t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "root"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}}}
	s.eventually("a pod that may be root in "+c.Name, func(ctx context.Context) string {
		_, err := s.core(c).CoreV1().Pods(namespace).Create(ctx, pod,
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil && strings.Contains(err.Error(), "violates PodSecurity") {
			return ""
		}
		return fmt.Sprintf("is not refused by the namespace: %v", err)
	})
}

// expectRolledOut waits until all pods of a Deployment were admitted, and run.
func (s *site) expectRolledOut(cluster, name string) {
	s.t.Helper()
	s.run(fmt.Sprintf("kubectl --context %s --namespace %s rollout status deployment/%s", cluster, namespace, name))
}

// expectGuarded holds that what a chart renders beside a Deployment is for its pods: the budget counts and guards them,
// and the Service and the NetworkPolicy select them and name their ports.
func (s *site) expectGuarded(cluster, name string) {
	s.t.Helper()
	core := s.core(s.fleet.Cluster(cluster))
	d, err := core.AppsV1().Deployments(namespace).Get(s.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	s.eventually("the budget of "+name+" in "+cluster, func(ctx context.Context) string {
		b, err := core.PolicyV1().PodDisruptionBudgets(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if is := b.Status; is.ExpectedPods != *d.Spec.Replicas || is.DesiredHealthy != *d.Spec.Replicas-1 ||
			is.DisruptionsAllowed != 1 {
			return fmt.Sprintf("of %d pods %d have to be healthy and %d are, %d may be disrupted", is.ExpectedPods,
				is.DesiredHealthy, is.CurrentHealthy, is.DisruptionsAllowed)
		}
		return ""
	})
	service, err := core.CoreV1().Services(namespace).Get(s.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	policy, err := core.NetworkingV1().NetworkPolicies(namespace).Get(s.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	pod := labels.Set(d.Spec.Template.Labels)
	if !labels.SelectorFromSet(service.Spec.Selector).Matches(pod) ||
		!labels.SelectorFromSet(policy.Spec.PodSelector.MatchLabels).Matches(pod) {
		s.t.Errorf("%s in %s: its Service is for %v and its NetworkPolicy for %v, and its pods have the labels %v", name,
			cluster, service.Spec.Selector, policy.Spec.PodSelector.MatchLabels, pod)
	}
	var has, reached []string
	for _, port := range d.Spec.Template.Spec.Containers[0].Ports {
		has = append(has, port.Name)
	}
	for _, rule := range policy.Spec.Ingress {
		for _, port := range rule.Ports {
			reached = append(reached, port.Port.String())
		}
	}
	for _, port := range service.Spec.Ports {
		if !slices.Contains(has, port.TargetPort.String()) {
			s.t.Errorf("%s in %s: its Service is for the port %s, and its pods have %v", name, cluster, &port.TargetPort, has)
		}
	}
	slices.Sort(has)
	slices.Sort(reached)
	if !slices.Equal(has, reached) {
		s.t.Errorf("%s in %s: its NetworkPolicy lets in what is for %v, and its pods have the ports %v", name, cluster,
			reached, has)
	}
}

// expectQueued waits until the hub's API server has served requests by each of the FlowSchemas, by its own count.
func (s *site) expectQueued(schemas ...string) {
	s.t.Helper()
	for _, name := range schemas {
		count := regexp.MustCompile(`(?m)^apiserver_flowcontrol_dispatched_requests_total\{flow_schema="` + name +
			`",[^}]*\} [1-9]`)
		s.eventually("requests that go by the FlowSchema "+name, func(ctx context.Context) string {
			metrics, err := s.core(s.fleet.Hub()).Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
			if err != nil {
				return err.Error()
			}
			if !count.Match(metrics) {
				return "the API server has counted none"
			}
			return ""
		})
	}
}

// expectRuns holds what a Deployment says, and that its program runs by it and leads.
func (s *site) expectRuns(cluster, name string, replicas int32, arg string) {
	s.t.Helper()
	d, err := s.core(s.fleet.Cluster(cluster)).AppsV1().Deployments(namespace).Get(s.t.Context(), name,
		metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	if *d.Spec.Replicas != replicas || !slices.Contains(d.Spec.Template.Spec.Containers[0].Args, arg) {
		s.t.Errorf("%s has %d replicas and the arguments %v, want %d and %s", name, *d.Spec.Replicas,
			d.Spec.Template.Spec.Containers[0].Args, replicas, arg)
	}
	if !slices.Contains(s.running[name+"-"+cluster], arg) {
		s.t.Errorf("%s runs with %v, want %s", name, s.running[name+"-"+cluster], arg)
	}
}

// podsOf returns the workload's pods in the members, by name: those that are not being removed.
func (s *site) podsOf(members ...string) map[string]types.UID {
	s.t.Helper()
	all := map[string]types.UID{}
	for _, member := range members {
		pods, err := s.core(s.fleet.Member(member)).CoreV1().Pods("shop").List(s.t.Context(), metav1.ListOptions{})
		if err != nil {
			s.t.Fatal(err)
		}
		for i := range pods.Items {
			if p := &pods.Items[i]; p.DeletionTimestamp == nil && p.Status.Phase == corev1.PodRunning {
				all[member+"/"+p.Name] = p.UID
			}
		}
	}
	return all
}

// expectSame holds that the pods that were there are, and no others.
func (s *site) expectSame(before map[string]types.UID, after string) {
	s.t.Helper()
	members := map[string]bool{}
	for name := range before {
		member, _, _ := strings.Cut(name, "/")
		members[member] = true
	}
	if now := s.podsOf(slices.Sorted(maps.Keys(members))...); !maps.Equal(before, now) {
		s.t.Errorf("after %s the pods are %v, and were %v", after, now, before)
	}
}

// expectGranted holds that the API server refused a program nothing as its ServiceAccount so far.
func (s *site) expectGranted(names ...string) {
	s.t.Helper()
	for _, name := range names {
		for line := range strings.Lines(s.fleet.LogTail(name, 100_000)) {
			if strings.Contains(line, "forbidden") && strings.Contains(line, "system:serviceaccount:"+namespace) {
				s.t.Errorf("%s may not do what it wants to: %s", name, line)
			}
		}
	}
}

// expectKept holds that the CustomResourceDefinitions are there.
func (s *site) expectKept(cluster string) {
	s.t.Helper()
	c, err := client.New(s.fleet.Cluster(cluster).RESTConfig(), client.Options{})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, name := range []string{"clonesets.apps.kruise.io", "memberclusters.topology.flotilla.dev",
		"works.work.karmada.io"} {
		crd := &unstructured.Unstructured{}
		crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1",
			Kind: "CustomResourceDefinition"})
		if err := c.Get(s.t.Context(), client.ObjectKey{Name: name}, crd); err != nil || crd.GetDeletionTimestamp() != nil {
			s.t.Errorf("CustomResourceDefinition %s in %s: %v, deleted %v", name, cluster, err, crd.GetDeletionTimestamp())
		}
	}
}

// expectGone holds that nothing of the programs is left in a cluster: no Deployment, no rights.
func (s *site) expectGone(cluster string) {
	s.t.Helper()
	c, err := client.New(s.fleet.Cluster(cluster).RESTConfig(), client.Options{})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, name := range []string{"flotilla-hub", "flotilla-approver", "flotilla-agent"} {
		in := metav1.ObjectMeta{Namespace: namespace, Name: name}
		for _, object := range []client.Object{
			&appsv1.Deployment{ObjectMeta: in}, &corev1.ServiceAccount{ObjectMeta: in}, &rbacv1.Role{ObjectMeta: in},
			&rbacv1.RoleBinding{ObjectMeta: in},
			&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}},
			&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}},
		} {
			if err := c.Get(s.t.Context(), client.ObjectKeyFromObject(object), object); !apierrors.IsNotFound(err) {
				s.t.Errorf("%T %s in %s after its uninstall: %v", object, name, cluster, err)
			}
		}
	}
}
