package member

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/console"
	"github.com/flotilla-dev/flotilla/hub/inventory/registration"
)

// NewTokenCommand returns the verb token.
func NewTokenCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "token",
		Short: "Make, list and revoke the tokens that clusters join with",
		Long: `Make, list and revoke the tokens that clusters join with.

A token is for one name. With it a cluster can ask to be a member under that name, and do nothing else: it reads nothing of other
clusters, and nothing runs there before somebody accepts it with flotilla accept.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	command.AddCommand(newTokenCreate(), newTokenList(), newTokenRevoke())
	return command
}

// clientOf returns a client of the hub that knows what joining needs.
func clientOf(hub *console.Hub) (client.Client, error) {
	cfg, _, err := hub.Config()
	if err != nil {
		return nil, err
	}
	scheme, err := registration.Scheme()
	if err != nil {
		return nil, err
	}
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connect to the hub: %w", err)
	}
	return console.Paged(c), nil
}

func newTokenCreate() *cobra.Command {
	hub, output, life := &console.Hub{}, console.Output(""), time.Duration(0)
	command := &cobra.Command{
		Use:     "create NAME",
		Short:   "Make a token for a cluster that is to join under this name, and reserve the name",
		Example: "  flotilla token create east\n  flotilla token create east --ttl 20m -o json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := output.Check(); err != nil {
				return err
			}
			if err := checkName(args[0]); err != nil {
				return err
			}
			c, err := clientOf(hub)
			if err != nil {
				return err
			}
			token, err := registration.CreateToken(cmd.Context(), c, args[0], life)
			if err != nil {
				return err
			}
			return output.Print(cmd.OutOrStdout(), token, func(out io.Writer) error {
				fmt.Fprintf(
					cmd.ErrOrStderr(),
					"The name %s is reserved. The token for it expires at %s; flotilla join makes one by itself.\n",
					token.Member,
					token.Expires.Format(time.RFC3339),
				)
				_, err := fmt.Fprintln(out, token.Token)
				return err
			})
		},
	}
	hub.AddFlags(command)
	output.AddFlag(command)
	command.Flags().DurationVar(&life, "ttl", registration.DefaultTokenLife, "how long the token lives, 10m to 24h")
	return command
}

func newTokenList() *cobra.Command {
	hub, output := &console.Hub{}, console.Output("")
	command := &cobra.Command{
		Use:   "list",
		Short: "List the names that tokens were made for, and when the last one expires",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := output.Check(); err != nil {
				return err
			}
			c, err := clientOf(hub)
			if err != nil {
				return err
			}
			tokens, err := registration.ListTokens(cmd.Context(), c)
			if err != nil {
				return err
			}
			return output.Print(cmd.OutOrStdout(), tokens, func(out io.Writer) error {
				if len(tokens) == 0 {
					fmt.Fprintln(cmd.ErrOrStderr(), "There are no tokens for joining. Next: flotilla join NAME")
					return nil
				}
				var text strings.Builder
				text.WriteString("NAME\tEXPIRES\n")
				for _, t := range tokens {
					fmt.Fprintf(&text, "%s\t%s\n", t.Member, t.Expires.Format(time.RFC3339))
				}
				return console.Table(out, text.String())
			})
		},
	}
	hub.AddFlags(command)
	output.AddFlag(command)
	return command
}

func newTokenRevoke() *cobra.Command {
	hub := &console.Hub{}
	command := &cobra.Command{
		Use:   "revoke NAME",
		Short: "Make the tokens for a name void at once; a member that was accepted stays one",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := clientOf(hub)
			if err != nil {
				return err
			}
			found, err := registration.RevokeToken(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			if !found {
				fmt.Fprintf(cmd.ErrOrStderr(), "There is no token for %s.\n", args[0])
				return nil
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "The tokens for %s are void.\n", args[0])
			return nil
		},
	}
	hub.AddFlags(command)
	return command
}
