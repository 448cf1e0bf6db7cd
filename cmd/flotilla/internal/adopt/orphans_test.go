package adopt

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	controllerconfig "sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/apis/crds"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	memberverbs "github.com/flotilla-dev/flotilla/cmd/flotilla/internal/member"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/hub"
	"github.com/flotilla-dev/flotilla/hub/orphans"
	"github.com/flotilla-dev/flotilla/hub/store"
	memberagent "github.com/flotilla-dev/flotilla/member-agent"
)

// orphanBed is a hub that runs, and one cluster that joins it under several names.
type orphanBed struct {
	t           *testing.T
	fleet       *fleet.Fleet
	hub, member client.Client
	kubeconfig  string
	scheme      *runtime.Scheme
}

// TestOrphansOfAnEarlierNameAreAdoptedAndDeletedByTheirCommands lets a cluster leave, join again under another name,
// and runs each command that the hub names for what the cluster still has.
func TestOrphansOfAnEarlierNameAreAdoptedAndDeletedByTheirCommands(t *testing.T) {
	b := newOrphanBed(t)
	b.apply("default", web)
	b.join("east")
	end := b.agent("east")
	key := client.ObjectKey{Namespace: corev1.NamespaceDefault, Name: "web"}
	var pods []types.UID
	b.eventually("the pods run", func(ctx context.Context) string {
		pods = b.pods(ctx)
		return unless(len(pods) == 3, pods)
	})
	ordered := &apps.CloneSet{}
	b.must(b.member.Get(t.Context(), key, ordered))
	id := ordered.Labels[topology.LabelHub]
	for name, hubID := range map[string]string{"deleted": id, "kept": id, "foreign": "another-hub"} {
		b.must(b.member.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: corev1.NamespaceDefault, Name: name, Labels: map[string]string{topology.LabelHub: hubID},
		}}))
	}

	end() // an agent that answers may take the label off before it is dismissed
	if out, err := b.flotilla("leave", "east", "--orphan"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	ordered.ObjectMeta = metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}
	b.must(b.hub.Delete(t.Context(), ordered))
	b.eventually("the hub forgets the workload", func(ctx context.Context) string {
		return unless(b.hub.Get(ctx, key, &apps.CloneSet{}) != nil, "it is there")
	})
	b.join("north")
	b.agent("north")
	set, deleted, kept := "CloneSet.apps.kruise.io default/web", "ConfigMap default/deleted", "ConfigMap default/kept"
	message := b.orphans("north", set, deleted, kept)
	if want := "flotilla adopt cloneset/web -n default --from north"; !strings.Contains(message, want) {
		t.Errorf("the condition %q lacks %q", message, want)
	}

	b.run("north", set, "adopt it: ")
	b.orphans("north", deleted, kept)
	b.run("north", deleted, "delete it: ")
	b.orphans("north", kept)
	b.run("north", kept, "keep it without the hub: ")
	b.orphans("north")

	b.eventually("the workload is the hub's again", func(ctx context.Context) string {
		object := &apps.CloneSet{}
		if err := b.hub.Get(ctx, key, object); err != nil {
			return err.Error()
		}
		return unless(object.Status.ReadyReplicas == 3 && object.Labels[topology.LabelHub] == "", object)
	})
	if now := b.pods(t.Context()); !slices.Equal(now, pods) {
		t.Errorf("pods %v were replaced by %v", pods, now)
	}
	for _, name := range []string{"kept", "foreign"} {
		key := client.ObjectKey{Namespace: corev1.NamespaceDefault, Name: name}
		b.must(b.member.Get(t.Context(), key, &corev1.ConfigMap{}))
	}
	out, err := b.flotilla("adopt", "cloneset/web", "-n", "default", "--from", "north")
	if err == nil || !strings.Contains(err.Error(), "has an order of this hub already") {
		t.Errorf("an object with an order was adopted: %v\n%s", err, out)
	}
}

func newOrphanBed(t *testing.T) *orphanBed {
	t.Helper()
	const cluster = "cluster"
	nodes := fleet.Nodes(cluster, "eu", []string{"a"}, 1)
	f := fleet.ForTest(t, fleet.Config{Members: []fleet.ClusterSpec{{Name: cluster, Nodes: nodes}}})
	b := &orphanBed{t: t, fleet: f, kubeconfig: filepath.Join(t.TempDir(), "kubeconfig"), scheme: runtime.NewScheme()}
	hubScheme, err := hub.Scheme()
	b.must(err)
	b.must(memberagent.AddToScheme(b.scheme))
	for _, c := range f.Clusters() {
		b.must(c.InstallCRDs(t.Context(), crds.FS))
	}
	b.hub, err = client.New(f.Hub().RESTConfig(), client.Options{Scheme: hubScheme})
	b.must(err)
	b.member, err = client.New(f.Member(cluster).RESTConfig(), client.Options{Scheme: b.scheme})
	b.must(err)
	config := clientcmdapi.NewConfig()
	for name, c := range map[string]*fleet.Cluster{"hub": f.Hub(), "north": f.Member(cluster)} {
		one, err := clientcmd.LoadFromFile(c.Kubeconfig())
		b.must(err)
		current := one.Contexts[one.CurrentContext]
		config.Clusters[name], config.AuthInfos[name] = one.Clusters[current.Cluster], one.AuthInfos[current.AuthInfo]
		config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	}
	config.CurrentContext = "hub"
	b.must(clientcmd.WriteToFile(*config, b.kubeconfig))

	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: corev1.NamespaceDefault}}
	label := []byte(`{"metadata":{"labels":{"topology.flotilla.dev/federated":"true"}}}`)
	b.must(b.hub.Patch(t.Context(), namespace, client.RawPatch(types.MergePatchType, label)))
	b.must(b.hub.Create(t.Context(), &topology.FederationPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceDefault, Name: "all"},
		Spec:       topology.FederationPolicySpec{Workloads: []topology.WorkloadSelector{{Kind: "CloneSet"}}},
	}))
	mgr, err := hub.NewManager(t.Context(), f.Hub().RESTConfig(), hub.Options{
		MetricsBindAddress: "0", HealthProbeBindAddress: "0", SkipNameValidation: true, Logger: testr.New(t),
	})
	b.must(err)
	b.start(mgr)
	return b
}

// start runs a manager until stop is called, or the test ends.
func (b *orphanBed) start(mgr ctrl.Manager) (stop func()) {
	ctx, cancel := context.WithCancel(b.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := mgr.Start(ctx); err != nil {
			b.t.Errorf("a manager ended: %v", err)
		}
	}()
	stop = func() { cancel(); <-ended }
	b.t.Cleanup(stop)
	return stop
}

func (b *orphanBed) join(name string) {
	b.t.Helper()
	b.must(b.hub.Create(b.t.Context(), &topology.MemberCluster{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: topology.MemberClusterSpec{Accepted: true},
	}))
}

// agent runs the agent of the cluster under a name.
func (b *orphanBed) agent(name string) (stop func()) {
	b.t.Helper()
	mgr, err := ctrl.NewManager(b.fleet.Members()[0].RESTConfig(), ctrl.Options{
		Scheme: b.scheme, Cache: memberagent.CacheOptions(), Logger: testr.New(b.t),
		Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: controllerconfig.Controller{
			SkipNameValidation: new(true), CacheSyncTimeout: memberagent.CacheSyncTimeout,
		},
	})
	b.must(err)
	b.must(memberagent.Setup(b.t.Context(), mgr, memberagent.Options{
		Hub: b.fleet.Hub().RESTConfig(), ClusterName: name, Namespace: "flotilla-system", Version: "v0.0.0-test", Workers: 4,
		Clock: clock.RealClock{},
	}))
	return b.start(mgr)
}

func (b *orphanBed) apply(namespace, manifest string) {
	b.t.Helper()
	object := &apps.CloneSet{}
	b.must(yaml.UnmarshalStrict([]byte(manifest), object))
	object.Namespace = namespace
	b.must(b.hub.Create(b.t.Context(), object))
}

// pods returns the uids of the member's pods, sorted.
func (b *orphanBed) pods(ctx context.Context) []types.UID {
	b.t.Helper()
	list := &corev1.PodList{}
	b.must(b.member.List(ctx, list, client.InNamespace(corev1.NamespaceDefault)))
	var uids []types.UID
	for i := range list.Items {
		uids = append(uids, list.Items[i].UID)
	}
	slices.Sort(uids)
	return uids
}

// orphans waits until the hub names these orphans of a member and no others, and returns the message of the condition.
func (b *orphanBed) orphans(name string, want ...string) string {
	b.t.Helper()
	var message string
	b.eventually(fmt.Sprintf("the orphans are %q", want), func(ctx context.Context) string {
		m := &topology.MemberCluster{}
		if err := b.hub.Get(ctx, client.ObjectKey{Name: name}, m); err != nil {
			return err.Error()
		}
		condition := meta.FindStatusCondition(m.Status.Conditions, topology.MemberOrphans)
		if condition == nil || (condition.Status == metav1.ConditionTrue) != (len(want) > 0) {
			return fmt.Sprintf("%+v", m.Status)
		}
		message = condition.Message
		return unless(slices.Equal(m.Status.Orphans, want) && int(m.Status.Orphaned) == len(want), m.Status.Orphans)
	})
	return message
}

// run runs the command that the hub names for an orphan, as it is.
func (b *orphanBed) run(name, orphan, does string) {
	b.t.Helper()
	id, err := store.HubID(b.t.Context(), b.hub)
	b.must(err)
	for _, remedy := range orphans.Commands(name, orphan, id) {
		command, found := strings.CutPrefix(remedy, does)
		if !found {
			continue
		}
		words := strings.Fields(command)
		if words[0] == "flotilla" {
			if out, err := b.flotilla(words[1:]...); err != nil {
				b.t.Fatalf("%s: %v\n%s", command, err, out)
			}
			return
		}
		kubectl := exec.CommandContext(b.t.Context(), filepath.Join(b.fleet.Bin(), words[0]), words[1:]...)
		kubectl.Env = append(os.Environ(), "KUBECONFIG="+b.kubeconfig)
		if out, err := kubectl.CombinedOutput(); err != nil {
			b.t.Fatalf("%s: %v\n%s", command, err, out)
		}
		return
	}
	b.t.Fatalf("%s has no command that does %q", orphan, does)
}

// flotilla runs the verb with its arguments.
func (b *orphanBed) flotilla(args ...string) (string, error) {
	b.t.Helper()
	command := NewCommand()
	if args[0] == "leave" {
		command = memberverbs.NewLeaveCommand()
	}
	var out bytes.Buffer
	command.SetOut(&out)
	command.SetErr(&out)
	command.SilenceUsage, command.SilenceErrors = true, true
	command.SetArgs(append(slices.Clone(args[1:]), "--kubeconfig", b.kubeconfig))
	err := command.ExecuteContext(b.t.Context())
	return out.String(), err
}

func (b *orphanBed) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// eventually polls until check returns "", and fails with what it said last.
func (b *orphanBed) eventually(what string, check func(ctx context.Context) string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), 2*time.Minute)
	defer cancel()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		said := check(ctx)
		if said == "" {
			return
		}
		select {
		case <-ctx.Done():
			b.t.Fatalf("%s: %s", what, said)
		case <-ticker.C:
		}
	}
}

func unless(ok bool, got any) string {
	if ok {
		return ""
	}
	return fmt.Sprintf("%v", got)
}
