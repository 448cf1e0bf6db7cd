package pods

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/console"
)

// NewPortForwardCommand returns the verb `flotilla port-forward`.
func NewPortForwardCommand() *cobra.Command {
	o, addresses := &options{}, []string{}
	command := &cobra.Command{
		Use:   "port-forward (KIND/NAME | -C MEMBER POD) [LOCAL:]REMOTE...",
		Short: "Forward local ports to a pod of a workload, in one of its members",
		Long: `Forward local ports to the first Ready pod of a workload, in the first member that has one, or to a
pod that is named, until interrupted. Standard error says which pod that is. -C narrows.

REMOTE is the number or the name of a port of a container. Without LOCAL the local port has the same number; with an
empty one, as in :8080, it is a free one. Members are reached as flotilla logs reaches them.`,
		Example: "  flotilla port-forward clone/api -n shop 8080:80\n  flotilla port-forward -C east api-x7k2p :http",
		Args:    cobra.MinimumNArgs(2),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			return o.hub.CompleteWorkloads(cmd, args, typed)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, port := range args[1:] {
				if err := checkPort(port); err != nil {
					return err
				}
			}
			found, err := o.chooseFor(cmd, args[0])
			if err != nil {
				return err
			}
			ports, err := portsOf(found.pod, args[1:])
			if err != nil {
				return err
			}
			return found.forward(cmd.Context(), addresses, ports, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.addFlags(command)
	command.Flags().StringSliceVar(&addresses, "address", []string{"localhost"}, "the local addresses to listen on")
	return command
}

// checkPort refuses what is no [LOCAL:]REMOTE.
func checkPort(text string) error {
	local, remote, both := strings.Cut(text, ":")
	if !both {
		local, remote = "", text
	}
	_, err := strconv.ParseUint(local, 10, 16)
	if local != "" && err != nil || remote == "" || strings.Contains(remote, ":") {
		return console.Usagef("%q names no port; write LOCAL:REMOTE, as in 8080:80", text)
	}
	return nil
}

// portsOf returns the ports with numbers in place of the names of a pod's ports.
func portsOf(pod *corev1.Pod, asked []string) ([]string, error) {
	var ports []string
	for _, text := range asked {
		local, remote, both := strings.Cut(text, ":")
		if !both {
			remote = text
		}
		number, err := portOf(pod, remote)
		if err != nil {
			return nil, err
		}
		if !both {
			local = number
		}
		ports = append(ports, local+":"+number)
	}
	return ports, nil
}

func portOf(pod *corev1.Pod, remote string) (string, error) {
	if n, err := strconv.ParseUint(remote, 10, 16); err == nil && n > 0 {
		return remote, nil
	}
	var known []string
	for i := range pod.Spec.Containers {
		for _, port := range pod.Spec.Containers[i].Ports {
			if port.Name == remote {
				return strconv.Itoa(int(port.ContainerPort)), nil
			}
			if port.Name != "" {
				known = append(known, port.Name)
			}
		}
	}
	has := "its ports have no names"
	if len(known) > 0 {
		has = "it has " + strings.Join(known, ", ")
	}
	return "", fmt.Errorf("pod %s has no port %q; %s", pod.Name, remote, has)
}

// forward forwards the ports until the context or the connection ends.
func (c *chosen) forward(ctx context.Context, addresses, ports []string, out, talk io.Writer) error {
	request := c.member.streams.CoreV1().RESTClient().Post().Resource("pods").Namespace(c.pod.Namespace).
		Name(c.pod.Name).SubResource("portforward")
	dialer, err := newDialer(c.member.config, request.URL())
	if err != nil {
		return fmt.Errorf("forward ports to pod %s of member %s: %w", c.pod.Name, c.member.name, err)
	}
	ready := make(chan struct{})
	forwarder, err := portforward.NewOnAddressesForStreamingWithContext(ctx, dialer, addresses, ports, ready, out, talk)
	if err != nil {
		return console.Usagef("forward ports %s: %w", strings.Join(ports, " "), err)
	}
	ended := make(chan error, 1)
	go func() { ended <- forwarder.ForwardPorts() }()
	select {
	case <-ctx.Done(): // also while the member does not answer
		return nil
	case err = <-ended:
	}
	if err != nil && ctx.Err() == nil {
		return c.member.failed("forward ports to pod "+c.pod.Name, err)
	}
	return nil
}

// newDialer speaks WebSockets, and SPDY with API servers and proxies that know no other.
func newDialer(cfg *rest.Config, to *url.URL) (httpstream.Dialer, error) {
	transport, upgrader, err := spdy.RoundTripperFor(cfg)
	if err != nil {
		return nil, err
	}
	older := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, to)
	sockets, err := portforward.NewSPDYOverWebsocketDialerForStreaming(to, cfg)
	if err != nil {
		return nil, err
	}
	return portforward.NewFallbackDialerForStreaming(sockets, older, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	}), nil
}
