//go:build e2e

package kind

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/e2e/page"
)

const (
	// patience is how long is waited for what takes seconds on a quiet machine: nodes are started, and Leases run out, in
	// some of it.
	patience = 5 * time.Minute
	// prefix is before the names of our clusters, their containers and their network: those of others on the machine are
	// left alone.
	prefix = "flotilla-e2e"
	// system is the namespace of our programs, shop that of the workloads.
	system, shop = "flotilla-system", "shop"
	hub          = "hub"
)

// cluster is a kind cluster: kind's name for it, the docker names of its nodes, and clients.
type cluster struct {
	name, kind string
	nodes      []string
	core       kubernetes.Interface
	objects    client.Client
}

// site is a hub and two clusters that are to be its members, and a person who follows docs/install.md.
type site struct {
	t *testing.T
	// env is that of the person's shell: our programs, kind, helm and kubectl, and a kubeconfig with the contexts hub,
	// east and west.
	env []string
	// root is the repository, home a folder of the test, docs the page by headings.
	root, home string
	docs       map[string][]string
	// nodeImage is "" for kind's own, tag that of the programs' images, network the range of addresses of the nodes.
	nodeImage, tag string
	// fingerprint is what flotilla join printed last.
	fingerprint string
	clusters    map[string]*cluster
	began       time.Time
	// times are of the steps, in their order.
	times []string
}

// zones are those of the workers, by cluster: the second member shares one with the first. The hub has no workers.
func zones() map[string][]string {
	return map[string][]string{hub: nil, "east": {"a", "b"}, "west": {"b", "c"}}
}

func newSite(t *testing.T) *site {
	t.Helper()
	log.SetLogger(logr.Discard())
	tag := os.Getenv("FLOTILLA_IMAGE_TAG")
	if tag == "" {
		t.Fatal("FLOTILLA_IMAGE_TAG is not set: run `make e2e-kind`, which makes images and sets it")
	}
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	docs, err := page.Commands(filepath.Join(root, "docs", "install.md"))
	if err != nil {
		t.Fatal(err)
	}
	bin, err := fleet.FindBinaries()
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	s := &site{t: t, root: root, home: home, docs: docs, tag: tag, nodeImage: os.Getenv("FLOTILLA_NODE_IMAGE"),
		clusters: map[string]*cluster{}, began: time.Now()}
	s.env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "KUBECONFIG="+
		filepath.Join(home, "kubeconfig"),
		"HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home, "KIND_EXPERIMENTAL_DOCKER_NETWORK="+prefix)
	return s
}

// step runs a part of the story, and keeps how long it took. The story ends with the first part that fails.
func (s *site) step(what string, do func()) {
	s.t.Helper()
	began := time.Now()
	do()
	if s.t.Failed() {
		s.t.Fatalf("%q failed after %.0f s", what, time.Since(began).Seconds())
	}
	line := fmt.Sprintf("%6.1f s  %s", time.Since(began).Seconds(), what)
	s.t.Log("==> " + line)
	s.times = append(s.times, line)
}

// report says how long the steps took.
func (s *site) report() {
	s.t.Logf("the steps:\n%s\n%6.1f s  all", strings.Join(s.times, "\n"), time.Since(s.began).Seconds())
}

// create makes the network and the clusters, all three at once.
func (s *site) create() {
	s.t.Helper()
	s.t.Cleanup(s.remove)
	s.remove() // what an earlier run left
	// Only in a network whose range was given a node may be given its address: docker proposes a range, and is then given
	// it.
	s.run("docker network create " + prefix)
	subnet := strings.TrimSpace(s.run("docker network inspect --format '{{(index .IPAM.Config 0).Subnet}}' " + prefix))
	s.run("docker network rm " + prefix)
	s.run("docker network create --subnet " + subnet + " " + prefix)
	var all sync.WaitGroup
	failures := make(chan string, len(zones()))
	for name := range zones() {
		command := s.creation(name)
		all.Go(func() {
			if out, err := s.command(s.t.Context(), command).CombinedOutput(); err != nil {
				failures <- fmt.Sprintf("$ %s\n%v\n%s", command, err, out)
			}
		})
	}
	all.Wait()
	close(failures)
	for failure := range failures {
		s.t.Error(failure)
	}
	if s.t.Failed() {
		s.t.FailNow()
	}
	s.contexts()
	for name := range zones() {
		s.connect(name)
	}
}

// creation returns the command that makes a cluster, and writes what it reads.
func (s *site) creation(name string) string {
	s.t.Helper()
	config := "kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\nnodes:\n- role: control-plane\n"
	for _, zone := range zones()[name] {
		config += fmt.Sprintf("- role: worker\n  labels: {topology.kubernetes.io/zone: %s, topology.kubernetes.io/region: "+
			"eu}\n", zone)
	}
	file := filepath.Join(s.home, name+"-kind.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		s.t.Fatal(err)
	}
	command := fmt.Sprintf("kind create cluster --name %s-%s --config %s --kubeconfig %s --wait 5m", prefix, name, file,
		s.kubeconfig(name))
	if s.nodeImage != "" {
		command += " --image " + s.nodeImage
	}
	return command
}

func (s *site) kubeconfig(name string) string { return filepath.Join(s.home, name+".yaml") }

// contexts writes one kubeconfig with a context for each cluster, the hub's being the current one.
func (s *site) contexts() {
	s.t.Helper()
	all := clientcmdapi.NewConfig()
	for name := range zones() {
		one, err := clientcmd.LoadFromFile(s.kubeconfig(name))
		if err != nil {
			s.t.Fatal(err)
		}
		at := one.Contexts[one.CurrentContext]
		all.Clusters[name], all.AuthInfos[name] = one.Clusters[at.Cluster], one.AuthInfos[at.AuthInfo]
		all.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	}
	all.CurrentContext = hub
	if err := clientcmd.WriteToFile(*all, filepath.Join(s.home, "kubeconfig")); err != nil {
		s.t.Fatal(err)
	}
}

// connect makes the clients of a cluster, and gives its nodes the addresses that they have for good: docker gives
// another one to a container that was stopped or cut off, and what kubeadm wrote names the first.
func (s *site) connect(name string) {
	s.t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig(name))
	if err != nil {
		s.t.Fatal(err)
	}
	config.Timeout, config.QPS = 20*time.Second, -1
	c := &cluster{name: name, kind: prefix + "-" + name}
	c.nodes = strings.Fields(s.run("kind get nodes --name " + c.kind))
	slices.Sort(c.nodes)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{apps.AddToScheme, corev1.AddToScheme, topology.AddToScheme} {
		if err := add(scheme); err != nil {
			s.t.Fatal(err)
		}
	}
	if c.core, err = kubernetes.NewForConfig(config); err != nil {
		s.t.Fatal(err)
	}
	for _, node := range c.nodes {
		address := s.address(node)
		s.cut(node)
		s.join(node, address)
	}
	s.eventually("the API server of "+name+" at its address", func(ctx context.Context) string {
		if _, err := c.core.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx); err != nil {
			return err.Error()
		}
		return ""
	})
	if c.objects, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		s.t.Fatal(err)
	}
	s.clusters[name] = c
}

// address returns that of a node, cut cuts it off from all others, and join connects it again.
func (s *site) address(node string) string {
	s.t.Helper()
	const address = "'{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}' "
	return strings.TrimSpace(s.run("docker inspect --format " + address + node))
}

func (s *site) cut(node string) {
	s.t.Helper()
	s.run("docker network disconnect " + prefix + " " + node)
}

func (s *site) join(node, address string) {
	s.t.Helper()
	s.run("docker network connect --ip " + address + " " + prefix + " " + node)
}

// remove removes the clusters and the network, those of an earlier run too.
func (s *site) remove() {
	if os.Getenv("FLOTILLA_KEEP_CLUSTERS") != "" && s.clusters[hub] != nil {
		s.t.Log("the clusters are kept, as FLOTILLA_KEEP_CLUSTERS says")
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), patience)
	defer cancel()
	for name := range zones() {
		if out, err := s.command(ctx, "kind delete cluster --name "+prefix+"-"+name+" --kubeconfig "+
			s.kubeconfig(name)).CombinedOutput(); err != nil {
			s.t.Errorf("remove the cluster %s: %v\n%s", name, err, out)
		}
	}
	if out, err := s.command(ctx, "docker network rm "+prefix).CombinedOutput(); err != nil &&
		!regexp.MustCompile(`(?i)no such network|not found`).Match(out) {
		s.t.Errorf("remove the network: %v\n%s", err, out)
	}
}

// load loads archives of images into nodes.
func (s *site) load(c *cluster, nodes []string, archives ...string) {
	s.t.Helper()
	for _, archive := range archives {
		s.run("kind load image-archive --name " + c.kind + " --nodes " + strings.Join(nodes, ",") + " " + archive)
	}
}

// follow runs commands of docs/install.md, with what the page leaves out: which images, and where members reach the
// hub.
func (s *site) follow(commands ...string) {
	s.t.Helper()
	if len(commands) == 0 {
		s.t.Fatal("docs/install.md has no commands under this heading")
	}
	for _, command := range commands {
		switch {
		case regexp.MustCompile(`^helm (install|upgrade) flotilla-(hub|agent|node) `).MatchString(command):
			command += " --set image.tag=" + s.tag
		case strings.HasPrefix(command, "flotilla join "):
			command += " --hub-server https://" + prefix + "-" + hub + "-control-plane:6443"
		}
		s.run(command)
	}
}

// run runs a command as a person does, in the repository, and returns what was printed.
func (s *site) run(command string) string {
	s.t.Helper()
	command = strings.ReplaceAll(command, "sha256:...", s.fingerprint)
	ctx, cancel := context.WithTimeout(s.t.Context(), 2*patience)
	defer cancel()
	began := time.Now()
	out, err := s.command(ctx, command).CombinedOutput()
	if err != nil {
		s.t.Fatalf("$ %s\n%v\n%s", command, err, out)
	}
	if !strings.HasPrefix(command, "docker ") {
		s.t.Logf("%5.1f s  $ %s", time.Since(began).Seconds(), command)
	}
	if found := regexp.MustCompile(`sha256:[0-9a-f]{64}`).FindString(string(out)); found != "" {
		s.fingerprint = found
	}
	return string(out)
}

func (s *site) command(ctx context.Context, line string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "bash", "-c", line)
	cmd.Dir, cmd.Env = s.root, s.env
	return cmd
}

func (s *site) eventually(what string, problem func(ctx context.Context) string) {
	s.t.Helper()
	fleet.Eventually(s.t, patience, what, problem, nil)
}

// tell says how the clusters are, for a story that failed.
func (s *site) tell() {
	if !s.t.Failed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), patience)
	defer cancel()
	for name := range s.clusters {
		for _, command := range []string{
			"kubectl --context " + name + " --request-timeout 10s get nodes,pods -A -o wide",
			"kubectl --context " + name + " --request-timeout 10s get events -A --sort-by=.lastTimestamp | tail -25",
			"kubectl --context " + name +
				" --request-timeout 10s logs --namespace flotilla-system --prefix --tail 15 --selector " +
				"app.kubernetes.io/part-of=flotilla",
		} {
			out, _ := s.command(ctx, command).CombinedOutput() // of a cluster that does not answer, that is what there is to say
			s.t.Logf("$ %s\n%s", command, out)
		}
	}
	if keep := os.Getenv("FLOTILLA_KEEP_LOGS"); keep != "" {
		out, err := s.command(ctx, "flotilla sysdump --context hub -O "+filepath.Join(keep, "kind.tar.gz")).CombinedOutput()
		s.t.Logf("sysdump: %v\n%s", err, out)
	}
}
