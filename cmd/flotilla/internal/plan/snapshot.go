package plan

import (
	"github.com/spf13/cobra"

	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/console"
	"github.com/flotilla-dev/flotilla/hub/snapshot"
)

// NewSnapshotCommand returns the verb snapshot.
func NewSnapshotCommand() *cobra.Command {
	var hub console.Hub
	command := &cobra.Command{
		Use:   "snapshot",
		Short: "Write what the hub's decisions depend on, for flotilla plan --members",
		Long: `Write what the hub's decisions depend on as YAML: members, policies, namespaces, workloads, placements, and the Works
with what members reported. flotilla plan --members reads it, on any machine.`,
		Example: `  flotilla snapshot -A > fleet.yaml
  flotilla plan --members fleet.yaml -f web.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			namespace, err := hub.Namespace()
			if err != nil {
				return err
			}
			s, _, err := hub.Record(cmd.Context(), namespace)
			if err != nil {
				return err
			}
			return snapshot.Write(cmd.OutOrStdout(), s)
		},
	}
	hub.AddFlags(command)
	hub.AddAllNamespaces(command)
	return command
}
