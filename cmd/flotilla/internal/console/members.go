package console

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// Members finds the API servers of members by contexts of the user's kubeconfig: the hub cannot reach into members, and
// has no credentials for them.
type Members struct {
	hub *Hub
	// contexts are the user's, by member.
	contexts map[string]string
}

// AddFlags adds the flag --member-context to a verb that has the flags of the hub.
func (m *Members) AddFlags(cmd *cobra.Command, hub *Hub) {
	m.hub = hub
	cmd.Flags().
		StringToStringVar(&m.contexts, "member-context", nil,
			"MEMBER=CONTEXT: the context of your kubeconfig that reaches a member; without it the context that has the "+
				"member's name. May be given several times")
}

// Named returns the members that the flag names, sorted.
func (m *Members) Named() []string { return slices.Sorted(maps.Keys(m.contexts)) }

// Config returns how a member is reached, and the context by which. It does not ask the member.
func (m *Members) Config(member string) (*rest.Config, string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	if m.hub.flags.KubeConfig != nil {
		rules.ExplicitPath = *m.hub.flags.KubeConfig
	}
	known, err := rules.Load()
	if err != nil {
		return nil, "", fmt.Errorf("read the kubeconfig: %w", err)
	}
	kubecontext, given := m.contexts[member]
	if !given {
		kubecontext = member
	}
	if known.Contexts[kubecontext] == nil {
		if given {
			return nil, "", fmt.Errorf(
				"your kubeconfig has no context %q for member %s; %s",
				kubecontext,
				member,
				contextsOf(slices.Sorted(maps.Keys(known.Contexts))),
			)
		}
		return nil, "", fmt.Errorf(
			"no context reaches member %s: your kubeconfig has none of that name; name one with --member-context %s=CONTEXT "+
				"(%s)",
			member,
			member,
			contextsOf(slices.Sorted(maps.Keys(known.Contexts))),
		)
	}
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules,
		&clientcmd.ConfigOverrides{CurrentContext: kubecontext}).
		ClientConfig()
	if err != nil {
		return nil, "", fmt.Errorf("use the context %q of your kubeconfig: %w", kubecontext, err)
	}
	cfg.QPS = -1 // a verb asks a dozen times; the API server limits
	return cfg, kubecontext, nil
}

func contextsOf(names []string) string {
	if len(names) == 0 {
		return "it has no contexts"
	}
	return "it has " + strings.Join(names, ", ")
}

// hubPatience is how long the hub is waited for: members are looked into just when it is away.
const hubPatience = 10 * time.Second

// Verify makes sure that a context reaches the cluster that the hub means by a member. Where the hub does not answer,
// or the member does not let its identity be read, that is told to talk, and the user's word counts.
func Verify(ctx context.Context, hub, reached client.Reader, member, kubecontext string, talk io.Writer) error {
	known := &topology.MemberCluster{}
	asked, cancel := context.WithTimeout(ctx, hubPatience)
	defer cancel()
	switch err := hub.Get(asked, types.NamespacedName{Name: member}, known); {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("the hub has no member %s; flotilla get clusters lists them", member)
	case err != nil:
		fmt.Fprintf(talk, "The hub was not asked whether the context %s is member %s: %v\n", kubecontext, member, err)
		return nil
	}
	system := &corev1.Namespace{}
	if err := reached.Get(ctx, types.NamespacedName{Name: metav1.NamespaceSystem}, system); apierrors.IsForbidden(err) {
		fmt.Fprintf(
			talk,
			"You may not read the identity of the cluster behind the context %s; it is taken for member %s\n",
			kubecontext,
			member,
		)
		return nil
	} else if err != nil {
		return fmt.Errorf("reach member %s by the context %s: %w", member, kubecontext, err)
	}
	if id := wire.ClusterID(known); id != "" && id != string(system.UID) {
		return fmt.Errorf(
			"the context %s reaches another cluster than member %s (id %s, and the hub knows %s); name the right one with "+
				"--member-context %s=CONTEXT",
			kubecontext,
			member,
			system.UID,
			id,
			member,
		)
	}
	return nil
}
