package dashboard

import (
	"context"
	"fmt"
	"html"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/console"
)

// verb is one call of the command.
type verb struct {
	hub  console.Hub
	port uint16
	open bool
}

// NewCommand returns the verb.
func NewCommand() *cobra.Command {
	v := &verb{}
	command := &cobra.Command{
		Use:   "dashboard",
		Short: "Show the fleet, and what needs you, on a page of this machine",
		Long: `Show the fleet, and what needs you, on a page of this machine.

The page reads the hub with the rights of your kubeconfig, and changes nothing: it has the commands to copy. It listens
on 127.0.0.1 only. The address that is printed has a token; do not give it away. The page ends with this command.`,
		Example: `  flotilla dashboard
  flotilla dashboard --open
  flotilla dashboard -n shop --port 8642`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return v.run(cmd) },
	}
	v.hub.AddFlags(command)
	command.Flags().Uint16Var(&v.port, "port", 0, "the port on 127.0.0.1; 0 for any free one")
	command.Flags().BoolVar(&v.open, "open", false, "open the page in your browser")
	return command
}

func (v *verb) run(cmd *cobra.Command) error {
	ctx, stop := context.WithCancel(cmd.Context())
	defer stop()
	cfg, scheme, err := v.hub.Config()
	if err != nil {
		return err
	}
	if err := v.hub.Pin(); err != nil {
		return err
	}
	s := scope{flags: v.hub.Flags()}
	if s.own, err = v.hub.Namespace(); err != nil {
		return err
	}
	if cmd.Flags().Changed("namespace") {
		s.only = s.own
	}
	b := newBoard(cfg.Host)
	from, err := newSource(cfg, scheme, b, cfg.Host, s)
	if err != nil {
		return err
	}
	if err := v.members(cmd, from.client); err != nil {
		return err
	}
	on, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(v.port))))
	if err != nil {
		return fmt.Errorf("listen on port %d of 127.0.0.1: %w; name another one with --port", v.port, err)
	}
	serving := newServer(ctx, b)
	address := "http://" + on.Addr().String() + "/#token=" + serving.token
	fmt.Fprintln(cmd.OutOrStdout(), address)
	fmt.Fprintln(cmd.ErrOrStderr(), "The page shows what you may read, and changes nothing. Ctrl-C ends it.")
	if v.open {
		remove, err := openPage(ctx, address)
		if err != nil {
			fmt.Fprintln(cmd.ErrOrStderr(), "note: the browser was not opened:", err)
		}
		defer remove()
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		from.run(ctx)
	}()
	err = serving.serve(ctx, on)
	stop()
	<-read
	return err
}

// members refuses a cluster that is not a hub, and writes a line where a hub has no members.
func (v *verb) members(cmd *cobra.Command, c client.Client) error {
	list := &topology.MemberClusterList{}
	err := c.List(cmd.Context(), list, client.Limit(1))
	switch {
	case apierrors.IsForbidden(err):
		return nil // the page says it
	case err != nil:
		return fmt.Errorf("list MemberClusters: %w", err)
	case len(list.Items) > 0:
		return nil
	}
	if err := v.hub.NotTheHub(cmd.Context()); err != nil {
		return err
	}
	console.NoteNoMembers(cmd.ErrOrStderr())
	return nil
}

// openPage opens an address in the user's browser. The address goes through a file that the user alone can read: other
// users of this machine see the arguments of programs. remove removes the file.
func openPage(ctx context.Context, address string) (remove func(), err error) {
	remove = func() {}
	folder, err := os.MkdirTemp("", "flotilla-dashboard-")
	if err != nil {
		return remove, fmt.Errorf("write the address to a file: %w", err)
	}
	remove = func() { _ = os.RemoveAll(folder) }
	file := filepath.Join(folder, "open.html")
	text := "<!doctype html><meta http-equiv=refresh content=\"0;url=" + html.EscapeString(address) + "\">\n"
	const ownerOnly = 0o600
	if err := os.WriteFile(file, []byte(text), ownerOnly); err != nil {
		return remove, fmt.Errorf("write the address to a file: %w", err)
	}
	program, args := "xdg-open", []string{file}
	switch runtime.GOOS {
	case "darwin":
		program = "open"
	case "windows":
		program, args = "rundll32", []string{"url.dll,FileProtocolHandler", file}
	}
	opening := exec.CommandContext(context.WithoutCancel(ctx), program, args...) // it may be the browser itself
	opening.SysProcAttr = ownSession()
	if err := opening.Start(); err != nil {
		return remove, fmt.Errorf("run %s: %w", program, err)
	}
	go func() { _ = opening.Wait() }()
	return remove, nil
}
