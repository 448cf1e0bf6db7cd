package console

import (
	"context"
	"maps"
	"slices"

	"github.com/spf13/cobra"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/store"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// completeFlags completes kubectl's flags: namespaces by what is placed in them, the others from the kubeconfig.
func (h *Hub) completeFlags(cmd *cobra.Command) {
	complete := func(flag string, by cobra.CompletionFunc) {
		_ = cmd.RegisterFlagCompletionFunc(
			flag,
			by,
		) // it fails for flags that there are not, and for those that were registered
	}
	complete("namespace", h.complete(func(ctx context.Context, c client.Reader) ([]string, error) {
		return names(ctx, c, &topology.WorkloadPlacementList{}, func(o client.Object) string { return o.GetNamespace() })
	}))
	complete(
		"context",
		h.completeConfig(func(c *clientcmdapi.Config) []string { return slices.Sorted(maps.Keys(c.Contexts)) }),
	)
	complete(
		"cluster",
		h.completeConfig(func(c *clientcmdapi.Config) []string { return slices.Sorted(maps.Keys(c.Clusters)) }),
	)
	complete(
		"user",
		h.completeConfig(func(c *clientcmdapi.Config) []string { return slices.Sorted(maps.Keys(c.AuthInfos)) }),
	)
}

// completeConfig makes a completion of names in the user's kubeconfig.
func (h *Hub) completeConfig(read func(*clientcmdapi.Config) []string) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		config, err := h.flags.ToRawKubeConfigLoader().RawConfig()
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return read(&config), cobra.ShellCompDirectiveNoFileComp
	}
}

// complete makes a completion of names that a function reads from the hub. Where the hub does not answer nothing is
// offered.
func (h *Hub) complete(read func(context.Context, client.Reader) ([]string, error)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		c, err := h.Client()
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		found, err := read(cmd.Context(), c)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

// CompleteWorkloads offers the workloads of the namespace as KIND/NAME, for the first argument.
func (h *Hub) CompleteWorkloads(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return h.complete(func(ctx context.Context, c client.Reader) ([]string, error) {
		namespace, err := h.Namespace()
		if err != nil {
			return nil, err
		}
		return workloads(ctx, c, namespace)
	})(cmd, args, typed)
}

// CompleteMembers offers the names of the members.
func (h *Hub) CompleteMembers(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	return h.complete(func(ctx context.Context, c client.Reader) ([]string, error) {
		return names(ctx, c, &topology.MemberClusterList{}, client.Object.GetName)
	})(cmd, args, typed)
}

// CompleteCells offers what of says of each cell of the workload that the first argument names, such as its zone.
func (h *Hub) CompleteCells(of func(topology.Cell) string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		return h.complete(func(ctx context.Context, c client.Reader) ([]string, error) {
			namespace, err := h.Namespace()
			if err != nil || len(args) == 0 {
				return nil, err
			}
			key, err := Workload(args[0], namespace)
			if err != nil {
				return nil, err
			}
			return cells(ctx, c, key, of)
		})(cmd, args, typed)
	}
}

// workloads lists the workloads of a namespace, of all (""), as KIND/NAME, each once, sorted.
func workloads(ctx context.Context, c client.Reader, namespace string) ([]string, error) {
	var all []string
	for _, rule := range kinds.Workloads() {
		found, err := names(
			ctx,
			c,
			rule.NewList(),
			func(o client.Object) string { return short(rule.GVK.Kind) + "/" + o.GetName() },
			client.InNamespace(namespace),
		)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// cells lists what of says of each cell of a placed workload, each once, sorted, without what is empty.
func cells(ctx context.Context, c client.Reader, key wire.Key, of func(topology.Cell) string) ([]string, error) {
	p, _, err := store.FindPlacement(ctx, c, key)
	if p == nil || err != nil {
		return nil, err
	}
	var all []string
	for _, cell := range p.Spec.Cells {
		all = append(all, of(cell))
	}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(text string) bool { return text == "" }), nil
}
