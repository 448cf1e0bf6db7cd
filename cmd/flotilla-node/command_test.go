package main

import (
	"os"
	"strings"
	"testing"

	"github.com/go-logr/logr"
)

// TestBadStart holds that a start that cannot work ends with one sentence that names the flag and the value.
func TestBadStart(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	t.Setenv("HOME", t.TempDir())
	t.Setenv(nodeVariable, "")
	for _, tc := range []struct {
		name string
		args []string
		says []string
	}{
		{"no node", nil, []string{"--node-name", "$NODE_NAME"}},
		{"a node that is none", []string{"--node-name=A_b"}, []string{`--node-name "A_b"`}},
		{"an endpoint that is no socket", []string{"--node-name=a", "--runtime-endpoint=tcp://1.2.3.4:5"},
			[]string{"--runtime-endpoint tcp://1.2.3.4:5", "unix://"}},
		{"a health address that is none", []string{"--node-name=a", "--health-probe-bind-address=10231"},
			[]string{`--health-probe-bind-address "10231"`}},
		{"no workers", []string{"--node-name=a", "--image-pull-workers=0"}, []string{"--image-pull-workers 0"}},
		{"an unknown level", []string{"--node-name=a", "--log-level=loud"}, []string{"loud", "debug, info, error"}},
		{"no kubeconfig anywhere", []string{"--node-name=a"}, []string{"no kubeconfig for the member", "--kubeconfig"}},
		{"a kubeconfig that does not exist", []string{"--node-name=a", "--kubeconfig=none"},
			[]string{"--kubeconfig none", "no such file"}},
		{"a probe of nothing", []string{"probe", "/readyz", "--health-probe-bind-address=127.0.0.1:1"},
			[]string{"127.0.0.1:1", "refused"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			command := newCommand()
			command.SetArgs(tc.args)
			command.SetOut(os.Stderr)
			err := command.ExecuteContext(t.Context())
			if err == nil {
				t.Fatal("it started")
			}
			for _, want := range tc.says {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
		})
	}
}

// TestPartsAreListedOnce holds that each part has a name of its own and can be added.
func TestPartsAreListedOnce(t *testing.T) {
	names := map[string]bool{}
	for _, part := range parts(&flags{node: "a", pullWorkers: 1}, logr.Discard()) {
		if part.Name == "" || names[part.Name] || part.Add == nil {
			t.Errorf("part %q is listed twice, has no name or cannot be added", part.Name)
		}
		names[part.Name] = true
	}
}

// TestLongNameOfANode: labels have no room for it, and all but the restarts work without.
func TestLongNameOfANode(t *testing.T) {
	for length, want := range map[int]int{63: 4, 64: 3} {
		all := parts(&flags{node: strings.Repeat("a", length), pullWorkers: 1}, logr.Discard())
		if len(all) != want {
			t.Errorf("%d parts on a node with a name of %d", len(all), length)
		}
	}
}
