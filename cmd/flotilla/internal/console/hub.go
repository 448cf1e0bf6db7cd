package console

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/hub"
	"github.com/flotilla-dev/flotilla/hub/snapshot"
	"github.com/flotilla-dev/flotilla/hub/store"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/servertime"
)

// Hub is the hub that the user's kubeconfig and flags name, as with kubectl.
type Hub struct {
	flags *genericclioptions.ConfigFlags
	// AllNamespaces is the flag -A.
	AllNamespaces bool
	// AnyCluster: the verb is for clusters that are no hub too, so that its errors say nothing of that.
	AnyCluster bool
	// asked: the verb has connected to the cluster.
	asked bool
}

// AddFlags adds kubectl's flags for a cluster to a verb, with the names of the hub for completion. A verb that fails in
// a cluster that is not the hub says so.
func (h *Hub) AddFlags(cmd *cobra.Command) {
	h.flags = genericclioptions.NewConfigFlags(true)
	flags := pflag.NewFlagSet(cmd.Name(), pflag.ContinueOnError)
	h.flags.AddFlags(flags)
	markConnection(flags)
	cmd.Flags().AddFlagSet(flags)
	h.completeFlags(cmd)
	h.explainErrors(cmd)
}

// AddAllNamespaces adds the flag -A to a verb.
func (h *Hub) AddAllNamespaces(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&h.AllNamespaces, "all-namespaces", "A", false, "look into all namespaces")
}

// Namespace returns the namespace that the verb works in, empty for all.
func (h *Hub) Namespace() (string, error) {
	if h.AllNamespaces {
		return "", nil
	}
	if err := h.contextExists(); err != nil {
		return "", err
	}
	namespace, _, err := h.flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return "", fmt.Errorf("read the kubeconfig: %w", err)
	}
	return namespace, nil
}

// Config returns how the hub is reached. The scheme has the kinds that the hub reads and writes.
func (h *Hub) Config() (*rest.Config, *runtime.Scheme, error) {
	if err := h.contextExists(); err != nil {
		return nil, nil, err
	}
	cfg, err := h.flags.ToRESTConfig()
	if err != nil {
		return nil, nil, fmt.Errorf("find the hub: %w; name its kubeconfig with --kubeconfig or KUBECONFIG", err)
	}
	if h.nowhere(cfg) {
		return nil, nil, errors.New(
			"find the hub: no kubeconfig with a cluster was found; name the hub's with --kubeconfig or KUBECONFIG",
		)
	}
	cfg.QPS = -1 // a verb asks a dozen times; the API server limits
	h.asked = true
	scheme, err := hub.Scheme()
	if err != nil {
		return nil, nil, err
	}
	return cfg, scheme, nil
}

// contextExists returns an error with the contexts that exist if the kubeconfig does not have the one of --context.
func (h *Hub) contextExists() error {
	raw, err := h.flags.ToRawKubeConfigLoader().RawConfig()
	if err != nil || h.flags.Context == nil || *h.flags.Context == "" || raw.Contexts[*h.flags.Context] != nil {
		return nil //nolint:nilerr // who reads the rest says it
	}
	return fmt.Errorf("your kubeconfig has no context %q; %s", *h.flags.Context,
		contextsOf(slices.Sorted(maps.Keys(raw.Contexts))))
}

// nowhere tells whether the configuration names no cluster, so that only the guess of client-go is left: port 8080 of
// this machine.
func (h *Hub) nowhere(cfg *rest.Config) bool {
	raw, err := h.flags.ToRawKubeConfigLoader().RawConfig()
	return err == nil && len(raw.Clusters) == 0 && *h.flags.APIServer == "" && cfg.Host == "http://localhost:8080"
}

// Member returns a client of a member, by a context of the same kubeconfig.
func (h *Hub) Member(kubecontext string) (client.Client, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	if h.flags.KubeConfig != nil {
		rules.ExplicitPath = *h.flags.KubeConfig
	}
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules,
		&clientcmd.ConfigOverrides{CurrentContext: kubecontext}).
		ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("use the context %q of your kubeconfig: %w", kubecontext, err)
	}
	c, err := client.New(cfg, client.Options{})
	if err != nil {
		return nil, fmt.Errorf("connect with the context %q: %w", kubecontext, err)
	}
	return Paged(c), nil
}

// Client returns a client of the hub, which reads long lists in pages.
func (h *Hub) Client() (client.Client, error) {
	cfg, scheme, err := h.Config()
	if err != nil {
		return nil, err
	}
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connect to the hub: %w", err)
	}
	return Paged(c), nil
}

// ClientAndClock returns a client of the hub, and a clock that follows the API server as soon as that has answered: the
// clock of the user's machine may be minutes off.
func (h *Hub) ClientAndClock() (client.Client, clock.PassiveClock, error) {
	cfg, scheme, err := h.Config()
	if err != nil {
		return nil, nil, err
	}
	now := servertime.New(clock.RealClock{}, logr.Discard())
	cfg.Wrap(now.Wrap)
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return nil, nil, fmt.Errorf("connect to the hub: %w", err)
	}
	return Paged(c), now, nil
}

// Record returns a snapshot of the hub, of one namespace or of all (""), and the identity of the hub.
func (h *Hub) Record(ctx context.Context, namespace string) (*snapshot.Snapshot, string, error) {
	c, err := h.Client()
	if err != nil {
		return nil, "", err
	}
	s, err := snapshot.Record(ctx, c, c.Scheme(), namespace)
	if err != nil {
		return nil, "", NotAHub(err)
	}
	id, err := store.HubID(ctx, s)
	return s, id, err
}
