package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// Names of our programs: of their executable files, and of the hub in Fleet.Programs.
const (
	HubProgram   = "flotilla-hub"
	AgentProgram = "flotilla-agent"
)

// Flags of both programs.
const (
	metricsFlag    = "--metrics-bind-address="
	healthFlag     = "--health-probe-bind-address="
	webhookFlag    = "--webhook-bind-address="
	webhookURLFlag = "--webhook-url="
)

// AgentName is the name of a member's agent in Fleet.Programs.
func AgentName(member string) string { return AgentProgram + "-" + member }

// RunHub starts the hub program of folder bin with an identity of its own, and returns when it is ready. The CRDs must
// be installed. Arguments are added to those that the fleet gives.
func (f *Fleet) RunHub(ctx context.Context, bin string, args ...string) error {
	kubeconfig, err := f.HubIdentity(ctx)
	if err != nil {
		return err
	}
	return f.runServing(ctx, HubProgram, filepath.Join(bin, HubProgram), f.Hub(),
		append([]string{"--kubeconfig=" + kubeconfig}, args...))
}

// RunHubOn is RunHub for a cluster that is not the hub of the fleet.
func (f *Fleet) RunHubOn(ctx context.Context, bin string, c *Cluster, args ...string) error {
	kubeconfig, err := c.HubIdentity(ctx)
	if err != nil {
		return err
	}
	return f.runServing(ctx, HubProgram, filepath.Join(bin, HubProgram), c,
		append([]string{"--kubeconfig=" + kubeconfig}, args...))
}

// RunAgent starts the agent program of folder bin for the member, with identities of its own on the member and on the
// hub, and returns when it is ready. In a fleet without a hub it manages the workloads of one cluster.
func (f *Fleet) RunAgent(ctx context.Context, bin string, member *Cluster, args ...string) error {
	kubeconfig, err := f.AgentIdentity(ctx, member)
	if err != nil {
		return err
	}
	own := []string{"--kubeconfig=" + kubeconfig}
	if f.Hub() != nil {
		hub, err := f.MemberIdentity(ctx, member.Name)
		if err != nil {
			return err
		}
		own = append(own, "--hub-kubeconfig="+hub, "--cluster-name="+member.Name)
	}
	return f.runServing(ctx, AgentName(member.Name), filepath.Join(bin, AgentProgram), member, append(own, args...))
}

// Accept creates the member's MemberCluster on the hub, accepted; one that exists is accepted.
func (f *Fleet) Accept(ctx context.Context, member string) error { return f.Hub().Accept(ctx, member) }

// Accept is Fleet.Accept for any cluster that is a hub.
func (c *Cluster) Accept(ctx context.Context, member string) error {
	client, err := dynamic.NewForConfig(c.admin)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", c.Name, err)
	}
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": topology.GroupVersion.String(),
		"kind":       "MemberCluster",
		"metadata":   map[string]any{"name": member},
		"spec":       map[string]any{"accepted": true},
	}}
	members := client.Resource(topology.GroupVersion.WithResource("memberclusters"))
	if _, err := members.Apply(ctx, member, object, applied()); err != nil {
		return fmt.Errorf("accept MemberCluster %s: %w", member, err)
	}
	return nil
}

// WaitMembersReady returns when every member is Ready on the hub, or after patience with an error that says which is
// not.
func (f *Fleet) WaitMembersReady(ctx context.Context, patience time.Duration) error {
	client, err := dynamic.NewForConfig(f.Hub().admin)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", HubName, err)
	}
	members := client.Resource(topology.GroupVersion.WithResource("memberclusters"))
	waitingFor := ""
	notReady := errors.New("it is not Ready")
	last := notReady // a hub that was started a moment ago may refuse an answer
	err = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		for _, member := range f.Members() {
			object, err := members.Get(ctx, member.Name, metav1.GetOptions{})
			if err != nil || !hasTrueCondition(object, topology.MemberReady) {
				waitingFor, last = member.Name, cmp.Or(err, notReady)
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("wait until member %s is Ready on the hub: %w (%w); the end of its agent's log (%s):\n%s",
			waitingFor, err, last, f.LogFile(AgentName(waitingFor)), f.LogTail(AgentName(waitingFor), 5))
	}
	return nil
}

func hasTrueCondition(object *unstructured.Unstructured, kind string) bool {
	conditions, _, err := unstructured.NestedSlice(object.Object, "status", "conditions")
	return err == nil && slices.ContainsFunc(conditions, func(c any) bool {
		condition, ok := c.(map[string]any)
		return ok && condition["type"] == kind && condition["status"] == string(metav1.ConditionTrue)
	})
}

// HealthURL returns the address under which a program of ours that the fleet started answers /healthz and /readyz.
func (f *Fleet) HealthURL(name string) (string, error) {
	address, err := f.addressOf(name, healthFlag)
	return "http://" + address, err
}

// MetricsURL returns the address of the metrics of a program of ours that the fleet started.
func (f *Fleet) MetricsURL(name string) (string, error) {
	address, err := f.addressOf(name, metricsFlag)
	return "http://" + address + "/metrics", err
}

func (f *Fleet) addressOf(name, flag string) (string, error) {
	p, err := f.program(name)
	if err != nil {
		return "", err
	}
	for _, arg := range p.Args {
		if address, ok := strings.CutPrefix(arg, flag); ok {
			return address, nil
		}
	}
	return "", fmt.Errorf("%s was started without %s", name, flag)
}

// runServing starts a program of ours that serves the cluster's API server.
func (f *Fleet) runServing(ctx context.Context, name, path string, serves *Cluster, args []string) error {
	return f.runOurs(ctx, name, path, append([]string{webhookFlag + serves.WebhookAddress(), webhookURLFlag + "https://" +
		serves.WebhookAddress()}, args...))
}

// runOurs starts a program of ours on its own ports, unless it runs, and waits until it is ready.
func (f *Fleet) runOurs(ctx context.Context, name, path string, args []string) error {
	return f.runVerb(ctx, name, path, "", args)
}

// runVerb is runOurs for a verb of a program.
func (f *Fleet) runVerb(ctx context.Context, name, path, verb string, args []string) error {
	if f.Running(name) {
		return f.WaitReady(ctx, name)
	}
	metrics, metricsErr := f.addressOf(name, metricsFlag)
	health, healthErr := f.addressOf(name, healthFlag)
	if metricsErr != nil || healthErr != nil {
		ports, err := f.FreePorts(2)
		if err != nil {
			return err
		}
		metrics, health = fmt.Sprintf("%s:%d", loopback, ports[0]), fmt.Sprintf("%s:%d", loopback, ports[1])
	}
	// One of each runs; an election would only delay restarts.
	args = append([]string{metricsFlag + metrics, healthFlag + health, "--leader-elect=false"}, args...)
	if verb != "" {
		args = append([]string{verb}, args...)
	}
	p := Program{Name: name, Path: path, Args: args}
	if f.cfg.Env != nil {
		p.Env = f.cfg.Env(name)
	}
	if err := f.Run(p); err != nil {
		return err
	}
	return f.WaitReady(ctx, name)
}

// WaitReady returns when a program of ours says that it is ready, or with the end of its log when it ends or takes more
// than three minutes.
func (f *Fleet) WaitReady(ctx context.Context, name string) error {
	url, err := f.HealthURL(name)
	if err != nil {
		return err
	}
	client := &http.Client{Timeout: time.Second}
	ended := errors.New("it ended")
	err = poll(ctx, 3*time.Minute, func(ctx context.Context) (bool, error) {
		if !f.Running(name) {
			return false, ended
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/readyz", http.NoBody)
		if err != nil {
			return false, err
		}
		response, err := client.Do(request)
		if err != nil {
			return false, nil // it does not listen yet
		}
		defer response.Body.Close()
		return response.StatusCode == http.StatusOK, nil
	})
	if err != nil {
		return fmt.Errorf("wait until %s is ready: %w; the end of its log (%s):\n%s", name, err, f.LogFile(name),
			f.LogTail(name, 10))
	}
	return nil
}
