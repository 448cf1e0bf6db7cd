//go:build e2e

package restore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/apis/crds"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/e2e/page"
	"github.com/flotilla-dev/flotilla/hub"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// patience is how long the test waits for what takes seconds on a quiet machine.
const patience = 5 * time.Minute

const common = `
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {topology.flotilla.dev/federated: "true"}}
---
apiVersion: topology.flotilla.dev/v1alpha1
kind: FederationPolicy
metadata: {name: all, namespace: shop}
spec:
  workloads: [{kind: CloneSet}]
`

func cloneSet(name string) string {
	return fmt.Sprintf(`---
apiVersion: apps.kruise.io/v1beta1
kind: CloneSet
metadata: {name: %[1]s, namespace: shop}
spec:
  replicas: 3
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      containers: [{name: main, image: "a:1"}]
`, name)
}

// site is a hub with one member, and a person who follows the page.
type site struct {
	t      *testing.T
	fleet  *fleet.Fleet
	hub    client.Client
	member kubernetes.Interface
	env    []string
	folder string
}

// TestBackUpTheHub follows the page: a workload is younger than the backup, and another one was deleted after it. All
// of Flotilla runs on while the hub is restored; no pod goes, the younger workload is named, and it is taken over as it
// runs when it is applied again.
func TestBackUpTheHub(t *testing.T) {
	s := newSite(t, func(f *fleet.Fleet) error {
		if err := f.Accept(t.Context(), "east"); err != nil {
			return err
		}
		// By the Lease of its election the hub notices that it was put back.
		if err := f.RunHub(t.Context(), f.Bin(), "--leader-elect=true"); err != nil {
			return err
		}
		return f.RunAgent(t.Context(), f.Bin(), f.Member("east"))
	})
	commands, err := page.Commands(filepath.Join("..", "..", "docs", "tasks", "back-up-the-hub.md"))
	if err != nil {
		t.Fatal(err)
	}
	s.apply("old.yaml", common+cloneSet("old")+cloneSet("deleted"))
	old := s.pods("old", 3)
	s.pods("deleted", 3)

	s.follow(commands, "Back up")
	stored := s.leases(t.Context())
	s.apply(filepath.Join("workloads", "young.yaml"), cloneSet("young"))
	young := s.pods("young", 3)
	s.run("kubectl -n shop delete clone/deleted --timeout=240s")
	s.pods("deleted", 0)

	// A program notices the restore by its Lease, if it has renewed it since the backup. Else it has nothing to begin
	// anew for: the API server ends its watches, because the restore marks what they know as compacted.
	s.eventually("all Leases are renewed since the backup", func(ctx context.Context) string {
		for name, version := range s.leases(ctx) {
			if version == stored[name] {
				return name + " is not"
			}
		}
		return ""
	})
	if err := s.fleet.Hub().Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.follow(commands, "Restore")
	pids := map[string]int{}
	for _, name := range s.fleet.Programs() {
		if pids[name] = s.fleet.Pid(name); pids[name] == 0 {
			t.Fatalf("%s does not run any more", name)
		}
	}
	if err := s.fleet.Hub().Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name := range pids {
		s.eventually(name+" notices the restore", func(context.Context) string {
			if s.fleet.Running(name) {
				return "it runs on"
			}
			return ""
		})
		if said := s.fleet.LogTail(name, 5); !strings.Contains(said, "older state") {
			t.Errorf("%s ended, and does not say why:\n%s", name, said)
		}
	}
	// As a kubelet does, what has ended is started again, until it stays.
	for name := range pids {
		s.eventually(name+" runs again", func(ctx context.Context) string {
			if err := s.fleet.Restart(name); err != nil {
				return err.Error()
			}
			if err := s.fleet.WaitReady(ctx, name); err != nil {
				return err.Error()
			}
			return ""
		})
	}

	s.follow(commands, "Look")
	s.eventually("the younger workload is named", func(ctx context.Context) string {
		m := &topology.MemberCluster{}
		if err := s.hub.Get(ctx, client.ObjectKey{Name: "east"}, m); err != nil {
			return err.Error()
		}
		if said := fmt.Sprint(m.Status.Orphans); m.Status.Orphaned != 1 || !strings.Contains(said, "young") {
			return fmt.Sprintf("%d: %s", m.Status.Orphaned, said)
		}
		return ""
	})
	s.pods("deleted", 3)
	s.same("old", old)
	s.same("young", young)

	s.follow(commands, "Apply newer changes again")
	s.eventually("the younger workload is the hub's again", func(ctx context.Context) string {
		m := &topology.MemberCluster{}
		if err := s.hub.Get(ctx, client.ObjectKey{Name: "east"}, m); err != nil {
			return err.Error()
		}
		if m.Status.Orphaned != 0 {
			return fmt.Sprint(m.Status.Orphans)
		}
		return ""
	})
	s.run("kubectl -n shop scale clone/young --replicas=4")
	after := s.pods("young", 4)
	for name, uid := range young {
		if after[name] != uid {
			t.Errorf("pod %s of the younger workload is gone", name)
		}
	}
}

// TestInstallTheHubAnew follows docs/tasks/survive-a-hub-outage.md: of a hub nothing is left, and one with another id
// takes its place. The member joins it again, and leaves alone what the old hub gave it until that is handed over; no
// pod goes, restarts or is made twice.
func TestInstallTheHubAnew(t *testing.T) {
	s := newSite(t, func(f *fleet.Fleet) error {
		// A member whose agent joined as people do has a key, and joins another hub with it.
		if err := f.RunHub(t.Context(), f.Bin(), "--leader-elect=true"); err != nil {
			return err
		}
		if err := f.RunApprover(t.Context(), f.Bin()); err != nil {
			return err
		}
		return f.Join(t.Context(), f.Bin(), f.Member("east"))
	})
	said, err := page.Commands(filepath.Join("..", "..", "docs", "tasks", "survive-a-hub-outage.md"))
	if err != nil {
		t.Fatal(err)
	}
	commands := said["The hub was installed anew"]
	if len(commands) != 4 || commands[0] != "kubectl --context hub apply --server-side -f apis/crds" ||
		!strings.Contains(commands[3], "kubectl --context east -n shop label clone/api") {
		t.Fatalf("the page has these commands, and the last one is to hand clone/api over: %q", commands)
	}
	s.apply("api.yaml", common+cloneSet("api"))
	s.pods("api", 3)
	s.run("kubectl -n shop scale clone/api --replicas=4") // its orders have numbers above the first of a new hub
	before := s.pods("api", 4)
	s.eventually("the hub knows of all pods", func(ctx context.Context) string {
		return s.condition(ctx, "Ready", "True")
	})
	old := s.read("kubectl get namespace kube-system -o jsonpath={.metadata.uid}")
	const version = "kubectl --context east -n shop get clone/api -o " +
		"jsonpath={.metadata.uid}/{.metadata.generation}/{.metadata.labels}"

	for _, program := range []string{fleet.HubProgram, fleet.ApproverProgram} {
		if err := s.fleet.Quit(t.Context(), program); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.fleet.Hub().Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(s.fleet.Hub().StorageFolder()); err != nil {
		t.Fatal(err)
	}
	if err := s.fleet.Hub().Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if id := s.read("kubectl get namespace kube-system -o jsonpath={.metadata.uid}"); id == old || id == "" {
		t.Fatalf("the hub has the id %q, as before", id)
	}
	stands := s.read(version)
	for _, start := range []func() error{
		// What the first command does, and again where an API server under load takes longer for the rules of a definition
		// than it gives itself for a request. A hub that starts before all are served ends, and a kubelet starts it again;
		// this waits for them.
		func() error { return s.fleet.Hub().InstallCRDs(t.Context(), crds.FS) },
		func() error { return s.fleet.RunHub(t.Context(), s.fleet.Bin(), "--leader-elect=true") },
		func() error { return s.fleet.RunApprover(t.Context(), s.fleet.Bin()) },
	} {
		if err := start(); err != nil {
			t.Fatal(err)
		}
	}
	s.run(commands[1])
	// The agent may see that the hub went back, and end at any time: a kubelet starts it again.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, func(context.Context) (bool, error) {
			return false, s.fleet.Restart(fleet.AgentName("east"))
		})
	}()
	s.run(commands[2])
	if err := s.fleet.WaitMembersReady(t.Context(), patience); err != nil {
		t.Fatal(err)
	}

	s.apply("api.yaml", common+strings.Replace(cloneSet("api"), "replicas: 3", "replicas: 4", 1))
	s.eventually("the member refuses the stranger, and names it",
		func(ctx context.Context) string { return s.condition(ctx, "Stalled", "True", "Conflict", old) })
	if now := s.read(version); now != stands {
		t.Errorf("the CloneSet of the member is %s, and was %s", now, stands)
	}
	s.same("api", before)

	s.run(commands[3])
	s.eventually("it is the new hub's", func(ctx context.Context) string { return s.condition(ctx, "Ready", "True") })
	s.same("api", before)
	s.run("kubectl -n shop scale clone/api --replicas=5")
	after := s.pods("api", 5)
	for name, uid := range before {
		if after[name] != uid {
			t.Errorf("pod %s is gone", name)
		}
	}
	s.unrestarted()
	s.run("kubectl -n shop delete clone/api --timeout=240s")
	s.pods("api", 0)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("start the agent again: %v", err)
	}
}

// condition says what is missing to a condition of the CloneSet api on the hub: its status, and words of its reason or
// message.
func (s *site) condition(ctx context.Context, kind, status string, words ...string) string {
	set := &apps.CloneSet{}
	if err := s.hub.Get(ctx, client.ObjectKey{Namespace: "shop", Name: "api"}, set); err != nil {
		return err.Error()
	}
	for _, c := range set.Status.Conditions {
		if string(c.Type) != kind {
			continue
		}
		text := fmt.Sprintf("%s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message)
		for _, word := range append(words, kind+"="+status+" ") {
			if !strings.Contains(text, word) {
				return text
			}
		}
		if set.Status.ObservedGeneration != set.Generation {
			return "the hub has not looked at it yet"
		}
		return ""
	}
	return "there is no condition " + kind
}

// unrestarted holds that no container of the member's pods was restarted.
func (s *site) unrestarted() {
	s.t.Helper()
	pods, err := s.member.CoreV1().Pods("shop").List(s.t.Context(), metav1.ListOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	for i := range pods.Items {
		for _, c := range pods.Items[i].Status.ContainerStatuses {
			if c.RestartCount > 0 {
				s.t.Errorf("container %s of pod %s was restarted", c.Name, pods.Items[i].Name)
			}
		}
	}
}

// newSite makes a hub with the member east, which join starts and connects.
func newSite(t *testing.T, join func(*fleet.Fleet) error) *site {
	t.Helper()
	log.SetLogger(logr.Discard())
	f := fleet.ForTest(t, fleet.Config{Members: []fleet.ClusterSpec{{Name: "east",
		Nodes: fleet.Nodes("east", "eu", []string{"a"}, 1)}}})
	for _, program := range []string{fleet.HubProgram, fleet.AgentProgram, "flotilla", "etcdctl", "etcdutl"} {
		if _, err := os.Stat(filepath.Join(f.Bin(), program)); err != nil {
			t.Fatalf("%v: run make restore", err)
		}
	}
	for _, c := range f.Clusters() {
		if err := c.InstallCRDs(t.Context(), crds.FS); err != nil {
			t.Fatal(err)
		}
	}
	if err := join(f); err != nil {
		t.Fatal(err)
	}
	if err := f.WaitMembersReady(t.Context(), patience); err != nil {
		t.Fatal(err)
	}
	scheme, err := hub.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, fleet: f, folder: t.TempDir()}
	if s.hub, err = client.New(f.Hub().RESTConfig(), client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	if s.member, err = kubernetes.NewForConfig(f.Member("east").RESTConfig()); err != nil {
		t.Fatal(err)
	}
	bin, err := filepath.Abs(f.Bin())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(s.folder, "workloads"), 0o700); err != nil {
		t.Fatal(err)
	}
	s.env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "KUBECONFIG="+
		f.Hub().Kubeconfig()+string(os.PathListSeparator)+f.Member("east").Kubeconfig(),
		"ETCD="+f.Hub().StorageAddress(), "DATA="+f.Hub().StorageFolder())
	return s
}

// follow runs the commands of a section of the page.
func (s *site) follow(commands map[string][]string, heading string) {
	s.t.Helper()
	if len(commands[heading]) == 0 {
		s.t.Fatalf("the page has no commands under %q", heading)
	}
	for _, command := range commands[heading] {
		s.run(command)
	}
}

// run runs a command as a person does.
func (s *site) run(command string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	began := time.Now()
	cmd := exec.CommandContext(ctx, "bash", "-c", command)
	cmd.Dir, cmd.Env = s.folder, s.env
	if out, err := cmd.CombinedOutput(); err != nil {
		s.t.Fatalf("$ %s\n%v\n%s", command, err, out)
	}
	s.t.Logf("%5.1f s  $ %s", time.Since(began).Seconds(), command)
}

// read runs a command and returns what it prints.
func (s *site) read(command string) string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", command)
	cmd.Dir, cmd.Env = s.folder, s.env
	out, err := cmd.Output()
	if err != nil {
		s.t.Fatalf("$ %s\n%v", command, err)
	}
	return strings.TrimSpace(string(out))
}

// apply writes a manifest into a file of the person's folder, and applies it.
func (s *site) apply(file, manifest string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.folder, file), []byte(manifest), 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.run("kubectl apply --filename " + file)
}

// pods waits until a workload has so many running pods in the member, and returns them.
func (s *site) pods(workload string, count int) map[string]types.UID {
	s.t.Helper()
	var all map[string]types.UID
	s.eventually(fmt.Sprintf("%s has %d pods", workload, count), func(ctx context.Context) string {
		pods, err := s.member.CoreV1().Pods("shop").List(ctx, metav1.ListOptions{LabelSelector: "app=" + workload})
		if err != nil {
			return err.Error()
		}
		all = map[string]types.UID{}
		for i := range pods.Items {
			if p := &pods.Items[i]; p.DeletionTimestamp == nil && p.Status.Phase == corev1.PodRunning {
				all[p.Name] = p.UID
			}
		}
		if len(all) != count || len(pods.Items) != count {
			return fmt.Sprintf("there are %d, of which %d run", len(pods.Items), len(all))
		}
		return ""
	})
	return all
}

// same holds that the pods of a workload are those of before.
func (s *site) same(workload string, before map[string]types.UID) {
	s.t.Helper()
	if after := s.pods(workload, len(before)); fmt.Sprint(after) != fmt.Sprint(before) {
		s.t.Errorf("%s has the pods %v, and had %v", workload, after, before)
	}
}

// leases returns the versions of the Leases of Flotilla's programs on the hub, by name.
func (s *site) leases(ctx context.Context) map[string]string {
	s.t.Helper()
	out := map[string]string{}
	for _, namespace := range []string{topology.SystemNamespace, wire.MemberNamespace("east")} {
		list := &coordinationv1.LeaseList{}
		if err := s.hub.List(ctx, list, client.InNamespace(namespace)); err != nil {
			s.t.Fatal(err)
		}
		for i := range list.Items {
			out[namespace+"/"+list.Items[i].Name] = list.Items[i].ResourceVersion
		}
	}
	return out
}

func (s *site) eventually(what string, problem func(ctx context.Context) string) {
	s.t.Helper()
	fleet.Eventually(s.t, patience, what, problem, nil)
}
