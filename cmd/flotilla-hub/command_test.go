package main

import (
	"os"
	"strings"
	"testing"
)

// TestFlags holds that the flags that both programs have are named and filled like those of flotilla-agent.
func TestFlags(t *testing.T) {
	for name, value := range map[string]string{
		"kubeconfig": "", "metrics-bind-address": ":8080", "health-probe-bind-address": ":8081",
		"leader-elect": "true", "leader-election-namespace": "flotilla-system", "log-level": "info", "log-format": "text",
		"webhook-bind-address": ":9443", "webhook-url": "",
	} {
		if f := command().Flags().Lookup(name); f == nil || f.DefValue != value {
			t.Errorf("flag --%s is %+v, want the default %q", name, f, value)
		}
	}
}

// TestBadStart holds that a start that cannot work ends with one sentence that names the flag and the value.
func TestBadStart(t *testing.T) {
	empty := t.TempDir()
	t.Setenv("KUBECONFIG", "")
	t.Setenv("HOME", empty)
	tests := []struct {
		name string
		args []string
		says []string
	}{
		{"a webhook URL without a server", []string{"--webhook-bind-address=0", "--webhook-url=https://hub"},
			[]string{"--webhook-url https://hub", "--webhook-bind-address"}},
		{"an unknown level", []string{"--log-level=loud"}, []string{"loud", "debug, info, error"}},
		{"an unknown format", []string{"--log-format=xml"}, []string{"xml", "text nor json"}},
		{"a kubeconfig that is not there, told in JSON", []string{"--log-format=json", "--kubeconfig=" + empty + "/none"},
			[]string{"--kubeconfig", "no such file"}},
		{"an argument", []string{"run"}, []string{`"run"`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cmd := command()
			cmd.SetArgs(tt.args)
			cmd.SetOut(os.Stderr)
			err := cmd.ExecuteContext(t.Context())
			if err == nil {
				t.Fatal("it started")
			}
			for _, want := range tt.says {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
		})
	}
}
