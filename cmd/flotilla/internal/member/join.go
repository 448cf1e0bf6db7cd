package member

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/console"
	"github.com/flotilla-dev/flotilla/hub/inventory/registration"
	"github.com/flotilla-dev/flotilla/member-agent/link/credential"
)

// joinOptions are the flags of join.
type joinOptions struct {
	hubKubeconfig, hubContext string
	kubeconfig, context       string
	hubServer, region         string
	credential                string
	life                      time.Duration
	waits                     bool
	patience                  time.Duration
}

// NewJoinCommand returns the verb join.
func NewJoinCommand() *cobra.Command {
	o := &joinOptions{}
	command := &cobra.Command{
		Use:   "join NAME",
		Short: "Let a cluster ask to be a member under this name",
		Long: `Let a cluster ask to be a member under this name.

First everything is checked, and nothing is written if something is in the way. Then a token is made on the hub, and the namespace
flotilla-system, the agent's ServiceAccount with its rights, and the Secrets flotilla-join and flotilla-credential in the cluster.
It can be run again: what is there stays, the key too. Nothing runs in the cluster before somebody accepts it with flotilla accept.`,
		Example: "  flotilla join east --hub-context hub --context east\n  flotilla join east --hub-context hub --context " +
			"east --hub-server https://hub.example.org:6443 --region eu --wait",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args[0]) },
	}
	f := command.Flags()
	f.StringVar(
		&o.hubKubeconfig,
		"hub-kubeconfig",
		"",
		"kubeconfig with the context of the hub (default: as --kubeconfig)",
	)
	f.StringVar(&o.hubContext, "hub-context", "", "context of the hub (default: the current one of --hub-kubeconfig)")
	f.StringVar(
		&o.kubeconfig,
		"kubeconfig",
		"",
		"kubeconfig with the context of the cluster (default: $KUBECONFIG, or ~/.kube/config)",
	)
	f.StringVar(&o.context, "context", "", "context of the cluster that joins (default: the current one)")
	f.StringVar(
		&o.hubServer,
		"hub-server",
		"",
		"URL of the hub's API server as the cluster reaches it (default: that of the hub's context)",
	)
	f.StringVar(
		&o.region,
		"region",
		"",
		"region of the member; subsets select it as topology.kubernetes.io/region (default: the one that its nodes share)",
	)
	f.StringVar(
		&o.credential,
		"credential",
		"",
		"what its agent shows the hub: certificate, or token where the hub's control plane signs no certificates for "+
			"clients (default: as it was, and certificate at first; a hub that signs none within a minute gives a token all "+
			"the same)",
	)
	f.DurationVar(&o.life, "ttl", registration.DefaultTokenLife, "how long the token lives, 10m to 24h")
	addWait(command, &o.waits, &o.patience, "wait until the member is accepted and Ready")
	return command
}

// configOf finds a cluster by a kubeconfig and a context of it.
func configOf(kubeconfig, kubecontext, what string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules,
		&clientcmd.ConfigOverrides{CurrentContext: kubecontext}).
		ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", what, err)
	}
	cfg.QPS = -1 // a verb asks a dozen times; the API server limits
	return cfg, nil
}

// side is one of the two clusters.
type side struct {
	config *rest.Config
	client client.Client
}

func connect(kubeconfig, kubecontext, what string) (*side, error) {
	cfg, err := configOf(kubeconfig, kubecontext, what)
	if err != nil {
		return nil, err
	}
	scheme, err := registration.Scheme()
	if err != nil {
		return nil, err
	}
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connect to %s at %s: %w", what, cfg.Host, err)
	}
	return &side{cfg, console.Paged(c)}, nil
}

func (o *joinOptions) run(cmd *cobra.Command, name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	if !slices.Contains([]string{"", "certificate", "token"}, o.credential) {
		return console.Usagef("--credential %q is neither certificate nor token", o.credential)
	}
	if o.hubKubeconfig == "" {
		o.hubKubeconfig = o.kubeconfig
	}
	hub, err := connect(o.hubKubeconfig, o.hubContext, "the hub")
	if err != nil {
		return err
	}
	member, err := connect(o.kubeconfig, o.context, "the cluster that joins")
	if err != nil {
		return err
	}
	if o.hubServer == "" {
		o.hubServer = hub.config.Host
	}
	if err := credential.CheckServer(o.hubServer); err != nil {
		return fmt.Errorf("%w: name it with --hub-server; nothing was written", err)
	}
	ctx, cancel := within(cmd.Context(), o.waits, o.patience)
	defer cancel()
	found, err := lookAround(ctx, hub, member, name)
	if err != nil {
		return err
	}
	if obstacles := found.obstacles(); len(obstacles) > 0 {
		return inTheWay(name, obstacles)
	}
	join, fingerprint, err := o.write(ctx, hub, member, name)
	if err != nil {
		return err
	}
	if err := o.next(cmd.OutOrStdout(), found, join, fingerprint); err != nil || !o.waits {
		return err
	}
	return waitReady(ctx, cmd.ErrOrStderr(), hub.client, name)
}

// write makes the token on the hub and what the agent needs in the member, and returns what the agent is told and the
// fingerprint of its key.
func (o *joinOptions) write(ctx context.Context, hub, member *side, name string) (*credential.Join, string, error) {
	token, err := registration.CreateToken(ctx, hub.client, name, o.life)
	if err != nil {
		return nil, "", err
	}
	if err := o.wish(ctx, hub.client, name); err != nil {
		return nil, "", err
	}
	join := &credential.Join{Name: name, UID: token.UID, Token: token.Token, Expires: token.Expires, Server: o.hubServer}
	if join.CA, err = caOf(hub.config); err != nil {
		return nil, "", err
	}
	fingerprint, err := credential.Equip(ctx, member.client, join)
	return join, fingerprint, err
}

// wish writes to the MemberCluster what the flags say of the member.
func (o *joinOptions) wish(ctx context.Context, hub client.Client, name string) error {
	if o.region == "" && o.credential == "" {
		return nil
	}
	member := &topology.MemberCluster{}
	if err := hub.Get(ctx, client.ObjectKey{Name: name}, member); err != nil {
		return fmt.Errorf("read MemberCluster %s: %w", name, err)
	}
	base := member.DeepCopy()
	member.Spec.Region = cmp.Or(o.region, member.Spec.Region)
	switch o.credential {
	case "certificate":
		member.Spec.Credential = topology.CredentialIsCertificate
	case "token":
		member.Spec.Credential = topology.CredentialIsToken
	}
	if equality.Semantic.DeepEqual(base.Spec, member.Spec) {
		return nil
	}
	if err := hub.Patch(ctx, member, client.MergeFrom(base)); err != nil {
		return fmt.Errorf("set region and credential of MemberCluster %s: %w", name, err)
	}
	return nil
}

// caOf returns the certificates that the hub is known by, in PEM; empty where those of the machine are meant.
func caOf(cfg *rest.Config) (string, error) {
	if len(cfg.CAData) > 0 || cfg.CAFile == "" {
		return string(cfg.CAData), nil
	}
	data, err := os.ReadFile(cfg.CAFile)
	if err != nil {
		return "", fmt.Errorf("read the hub's certificate authority: %w", err)
	}
	return string(data), nil
}

// next prints what to do next, with the values of this cluster.
func (o *joinOptions) next(out io.Writer, found *surroundings, join *credential.Join, fingerprint string) error {
	hubFlags := ""
	if o.hubKubeconfig != "" {
		hubFlags += " --kubeconfig " + o.hubKubeconfig
	}
	if o.hubContext != "" {
		hubFlags += " --context " + o.hubContext
	}
	if found.takesPart() {
		_, err := fmt.Fprintf(
			out,
			"%s takes part already; its agent has a new token, which it needs only if its certificate or token runs out.\n%s",
			join.Name,
			found.moved(join),
		)
		return err
	}
	_, err := fmt.Fprintf(out, `%[1]s can ask to join now, until %[2]s.
%[5]sNext, run its agent, in the cluster as ServiceAccount flotilla-system/flotilla-agent, or anywhere with a kubeconfig of the cluster:
  flotilla-agent --hub-secret flotilla-join
and accept it on the hub:
  flotilla accept %[1]s --fingerprint %[3]s --wait%[4]s
`, join.Name, join.Expires.Local().Format("15:04"), fingerprint, hubFlags, found.moved(join))
	return err
}
