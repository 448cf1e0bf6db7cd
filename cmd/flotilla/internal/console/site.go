package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgo "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

const (
	// sitePatience is how long a cluster has to say what it is, and as long all other contexts together.
	sitePatience = 3 * time.Second
	// mostContexts is how many contexts are asked whether they reach the hub.
	mostContexts = 8
)

// site is what a cluster is to Flotilla.
type site int

const (
	// unknownSite may be a hub: it does not answer, or the user may not read what says so.
	unknownSite site = iota
	hubSite
	memberSite
	// plainSite has neither a hub nor an agent, and bareSite not even our definitions.
	plainSite
	bareSite
)

// errElsewhere marks the error of a verb that was given a cluster that is not the hub.
var errElsewhere = errors.New("not the hub")

// elsewhere is that error, with its sentence.
type elsewhere struct{ sentence string }

func (e *elsewhere) Error() string { return e.sentence }

func (e *elsewhere) Is(target error) bool { return target == errElsewhere }

// NotTheHub returns an error if the cluster of the user's context is a member or has no Flotilla. The error names the
// context of the kubeconfig that reaches the hub of that member, or else one that reaches some hub. It returns nil if
// the cluster is or may be a hub.
func (h *Hub) NotTheHub(ctx context.Context) error {
	cfg, err := h.flags.ToRESTConfig()
	if err != nil || h.nowhere(cfg) {
		return nil //nolint:nilerr // connecting says it
	}
	asked, cancel := context.WithTimeout(ctx, sitePatience)
	defer cancel()
	core, err := clientgo.NewForConfig(quiet(cfg))
	if err != nil {
		return nil //nolint:nilerr // connecting says it
	}
	found := siteOf(asked, core)
	if found == unknownSite || found == hubSite {
		return nil
	}
	var at position
	id := idOf(asked, core)
	at.current, at.hub, at.member = h.look(ctx, id)
	if found != bareSite && id != "" && at.member == "" {
		at.hub = "" // that of another fleet
	}
	if found == plainSite && at.hub == "" {
		return nil // a hub that has no members yet looks like this
	}
	return &elsewhere{at.sentence(found)}
}

// explainErrors lets a verb that fails in a cluster that is not the hub say so in place of its error.
func (h *Hub) explainErrors(cmd *cobra.Command) {
	run := cmd.RunE
	if run == nil {
		return
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		err := run(cmd, args)
		var remote interface{ ExitStatus() int }
		if err == nil || !h.asked || h.AnyCluster || errors.Is(err, ErrUsage) || errors.Is(err, errElsewhere) ||
			errors.As(err, &remote) || cmd.Context().Err() != nil || errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		if wrong := h.NotTheHub(cmd.Context()); wrong != nil {
			return wrong
		}
		return err
	}
}

// position is where the user's context leads: its name, the name that the hub has for that cluster as a member, and the
// context that leads to the hub, or to some hub where no hub has that cluster. Each may be empty.
type position struct{ current, hub, member string }

// sentence says what the context reaches, and which context reaches the hub.
func (p position) sentence(found site) string {
	what := "a cluster without Flotilla"
	switch {
	case found == memberSite && p.member != "":
		what = "member " + p.member + ", not the hub"
	case found == memberSite:
		what = "a member, not the hub"
	case found == plainSite:
		what = "a cluster in which no hub runs"
	}
	where := "this kubeconfig"
	if p.current != "" {
		where = fmt.Sprintf("context %q", p.current)
	}
	switch {
	case p.hub == "":
		return fmt.Sprintf("%s reaches %s; name the hub with --context or --kubeconfig", where, what)
	case p.member == "": // there may be hubs of several fleets
		return fmt.Sprintf("%s reaches %s; context %q reaches a hub: if it is yours, add --context %[3]s",
			where, what, p.hub)
	}
	return fmt.Sprintf("%s reaches %s; the hub is context %q: add --context %[3]s", where, what, p.hub)
}

// look asks the other contexts of the kubeconfig which of them is the hub. id is that of the cluster that the user's
// context reaches; member is the name that the hub has for it. Without member, hub is the first of the hubs.
func (h *Hub) look(ctx context.Context, id string) (current, hub, member string) {
	raw, err := h.flags.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return "", "", ""
	}
	current = raw.CurrentContext
	if h.flags.Context != nil && *h.flags.Context != "" {
		current = *h.flags.Context
	}
	ctx, cancel := context.WithTimeout(ctx, sitePatience)
	defer cancel()
	names := candidates(&raw, current)
	answers := make([]*topology.MemberClusterList, len(names))
	var waiting sync.WaitGroup
	for i, name := range names {
		waiting.Go(func() { answers[i] = membersBy(ctx, &raw, name) })
	}
	waiting.Wait()
	for i, list := range answers {
		if list == nil || len(list.Items) == 0 {
			continue
		}
		for j := range list.Items {
			if id != "" && wire.ClusterID(&list.Items[j]) == id {
				return current, names[i], list.Items[j].Name
			}
		}
		if hub == "" {
			hub = names[i]
		}
	}
	return current, hub, ""
}

// candidates returns the contexts that may reach the hub, those first whose name says so. Contexts whose user needs a
// program or a dialogue are left out: asking by them may open a browser.
func candidates(raw *clientcmdapi.Config, current string) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(raw.Contexts)) {
		user := raw.AuthInfos[raw.Contexts[name].AuthInfo]
		if name != current && (user == nil || user.Exec == nil && user.AuthProvider == nil) {
			names = append(names, name)
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return rank(a) - rank(b) })
	return names[:min(len(names), mostContexts)]
}

func rank(name string) int {
	if strings.Contains(name, "hub") {
		return 0
	}
	return 1
}

// membersBy lists the members that the cluster of a context has, nil where it has no such kind or does not answer.
func membersBy(ctx context.Context, raw *clientcmdapi.Config, name string) *topology.MemberClusterList {
	cfg, err := clientcmd.NewNonInteractiveClientConfig(*raw, name, &clientcmd.ConfigOverrides{}, nil).ClientConfig()
	if err != nil {
		return nil
	}
	core, err := clientgo.NewForConfig(quiet(cfg))
	if err != nil {
		return nil
	}
	list, err := listMembers(ctx, core, "")
	if err != nil {
		return nil
	}
	return list
}

// listMembers lists MemberClusters without asking for the kinds of the cluster first. limit may be empty.
func listMembers(ctx context.Context, core clientgo.Interface, limit string) (*topology.MemberClusterList, error) {
	request := core.CoreV1().RESTClient().Get().AbsPath("/apis/" + topology.GroupVersion.String() + "/memberclusters")
	if limit != "" {
		request = request.Param("limit", limit)
	}
	data, err := request.DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("list MemberClusters: %w", err)
	}
	list := &topology.MemberClusterList{}
	if err := json.Unmarshal(data, list); err != nil {
		return nil, fmt.Errorf("read the list of MemberClusters: %w", err)
	}
	return list, nil
}

// siteOf returns what a cluster is, by what a hub or an agent leaves there.
func siteOf(ctx context.Context, core clientgo.Interface) site {
	list, err := listMembers(ctx, core, "1")
	defined := err == nil
	switch {
	case err == nil && len(list.Items) > 0:
		return hubSite
	case err != nil && !apierrors.IsNotFound(err):
		return unknownSite
	}
	policies := core.AdmissionregistrationV1().ValidatingAdmissionPolicies()
	for _, mark := range []struct {
		of  site
		get func() error
	}{
		{hubSite, func() error { return lease(ctx, core, "flotilla-hub") }},
		{hubSite, func() error { return deployment(ctx, core, "flotilla-hub") }},
		{hubSite, func() error {
			_, err := policies.Get(ctx, "flotilla-hub-warnings", metav1.GetOptions{})
			return err
		}},
		{memberSite, func() error { return lease(ctx, core, "flotilla-agent") }},
		{memberSite, func() error { return deployment(ctx, core, "flotilla-agent") }},
		{memberSite, func() error {
			_, err := policies.Get(ctx, "flotilla-member-warnings", metav1.GetOptions{})
			return err
		}},
	} {
		switch err := mark.get(); {
		case err == nil:
			return mark.of
		case !apierrors.IsNotFound(err):
			return unknownSite
		}
	}
	if defined {
		return plainSite
	}
	return bareSite
}

func lease(ctx context.Context, core clientgo.Interface, name string) error {
	_, err := core.CoordinationV1().Leases(topology.SystemNamespace).Get(ctx, name, metav1.GetOptions{})
	return err
}

func deployment(ctx context.Context, core clientgo.Interface, name string) error {
	_, err := core.AppsV1().Deployments(topology.SystemNamespace).Get(ctx, name, metav1.GetOptions{})
	return err
}

// idOf returns the id of a cluster, "" where it cannot be read.
func idOf(ctx context.Context, core clientgo.Interface) string {
	system, err := core.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return ""
	}
	return string(system.UID)
}

// quiet returns a configuration for a few questions. What the API server warns of is left out.
func quiet(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.WarningHandler = rest.NoWarnings{}
	cfg.Timeout = sitePatience
	return cfg
}

// Flags returns the flags that name the hub and the user as they were given, for commands in messages, or "":
// " --context hub". The token is left out, as messages are no place for it.
func (h *Hub) Flags() string {
	text := ""
	add := func(name, value string) {
		text += " --" + name + " " + quoted(value)
	}
	for _, flag := range []struct {
		name  string
		value *string
	}{
		{"kubeconfig", h.flags.KubeConfig}, {"context", h.flags.Context}, {"cluster", h.flags.ClusterName},
		{"user", h.flags.AuthInfoName}, {"server", h.flags.APIServer}, {"tls-server-name", h.flags.TLSServerName},
		{"certificate-authority", h.flags.CAFile}, {"client-certificate", h.flags.CertFile},
		{"client-key", h.flags.KeyFile}, {"as", h.flags.Impersonate}, {"as-uid", h.flags.ImpersonateUID},
	} {
		if flag.value != nil && *flag.value != "" {
			add(flag.name, *flag.value)
		}
	}
	if h.flags.ImpersonateGroup != nil {
		for _, group := range *h.flags.ImpersonateGroup {
			add("as-group", group)
		}
	}
	if h.flags.Insecure != nil && *h.flags.Insecure {
		text += " --insecure-skip-tls-verify"
	}
	return text
}

// Pin adds the context that is current now to [Hub.Flags], so that commands that are copied later reach the same hub.
// It errs if --server or --token is given without a context of a kubeconfig: no command to copy would reach that hub.
func (h *Hub) Pin() error {
	if *h.flags.Context != "" {
		return nil
	}
	raw, err := h.flags.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return fmt.Errorf("read the kubeconfig: %w", err)
	}
	if raw.Contexts[raw.CurrentContext] != nil {
		h.flags.Context = &raw.CurrentContext
		return nil
	}
	if *h.flags.APIServer != "" || *h.flags.BearerToken != "" {
		return Usagef("--server and --token need a context of your kubeconfig here, for commands to copy: " +
			"write one, and name it with --context")
	}
	return nil
}

// quoted returns a text as one word for a shell.
func quoted(text string) string {
	strange := strings.IndexFunc(text, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("_./:@%+=,-", r)
	})
	if strange < 0 {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
