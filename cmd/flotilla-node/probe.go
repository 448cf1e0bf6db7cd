package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// probeTimeout is below the timeout of the chart's probes.
const probeTimeout = 4 * time.Second

// newProbe returns the command that the kubelet runs in the container as a probe: health is served on localhost alone,
// which the kubelet does not reach from outside of the pod.
func newProbe() *cobra.Command {
	address := ""
	command := &cobra.Command{
		Use:   "probe PATH",
		Short: "Asks a running flotilla-node for /healthz or /readyz",
		Args:  cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			return probe(command.Context(), address, args[0])
		},
	}
	command.Flags().StringVar(&address, "health-probe-bind-address", defaultHealthAddress,
		"address of the running program")
	return command
}

// probe errs with what the program answers if that is not 200.
func probe(ctx context.Context, address, path string) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		return fmt.Errorf("ask %s%s: %w", address, path, err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("ask the program: %w", err)
	}
	defer func() { _ = response.Body.Close() }() // it was read
	const enough = 1 << 12
	body, err := io.ReadAll(io.LimitReader(response.Body, enough))
	if err != nil {
		return fmt.Errorf("read the answer of %s%s: %w", address, path, err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %d: %s", path, response.StatusCode, strings.TrimSpace(string(body)))
	}
	return nil
}
