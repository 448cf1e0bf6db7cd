package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestBadStart holds that a start that cannot work ends with one sentence that names the flag and the value.
func TestBadStart(t *testing.T) {
	empty := t.TempDir()
	broken := filepath.Join(empty, "broken")
	if err := os.WriteFile(broken, []byte("no kubeconfig"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", "")
	t.Setenv("HOME", empty)
	cases := []struct {
		name string
		args []string
		says []string
	}{
		{"a hub and no name", []string{"--hub-kubeconfig=" + broken}, []string{"--hub-kubeconfig needs --cluster-name"}},
		{"a name and no hub", []string{"--cluster-name=east"}, []string{"--cluster-name east needs --hub-kubeconfig"}},
		{"a name that is none", []string{"--cluster-name=East", "--hub-kubeconfig=x"}, []string{`"East"`, "DNS label"}},
		{"a name that is too long", []string{"--cluster-name=" + strings.Repeat("x", 53), "--hub-kubeconfig=x"},
			[]string{"at most 52"}},
		{"a kind that is not carried", []string{"--allow-kinds=CloneSet,Pod"},
			[]string{"--allow-kinds", `"Pod"`, "ConfigMap"}},
		{"kinds for a hub of Karmada", []string{"--hub-kind=karmada", "--hub-kubeconfig=x", "--cluster-name=east",
			"--allow-kinds=CloneSet"}, []string{"--allow-kinds", "--hub-kind karmada", "rights"}},
		{"a namespace that is none", []string{"--allow-namespaces=shop,Team"},
			[]string{"--allow-namespaces", `"Team"`, "team-*"}},
		{"namespaces for a hub of Karmada", []string{"--hub-kind=karmada", "--hub-kubeconfig=x", "--cluster-name=east",
			"--allow-namespaces=shop"}, []string{"--allow-namespaces shop", "--hub-kind karmada", "rights"}},
		{"no workers", []string{"--workers=0"}, []string{"--workers 0", "at least 1"}},
		{"a webhook address that is none", []string{"--webhook-bind-address=9443"},
			[]string{"--webhook-bind-address", `"9443"`}},
		{"a webhook URL that is none", []string{"--webhook-url=http://east"}, []string{"--webhook-url", `"http://east"`}},
		{"an unknown level", []string{"--log-level=loud"}, []string{"loud", "debug, info, error"}},
		{"an unknown format", []string{"--log-format=xml"}, []string{"xml", "text nor json"}},
		{"no kubeconfig anywhere", nil, []string{"no kubeconfig for the member", "--kubeconfig"}},
		{"a kubeconfig that is not there", []string{"--kubeconfig=" + empty + "/none"},
			[]string{"--kubeconfig", "no such file"}},
		{"a kubeconfig that is none", []string{"--kubeconfig=" + broken},
			[]string{"--kubeconfig " + broken, "no usable kubeconfig"}},
		{"an argument", []string{"run"}, []string{`"run"`}},
	}
	for _, tc := range cases {
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

// TestDefaults holds what a start without flags does.
func TestDefaults(t *testing.T) {
	for name, want := range map[string]string{"workers": "16",
		"allow-kinds": "[AdvancedCronJob,BroadcastJob,CloneSet,ConfigMap,CronJob,DaemonSet,Deployment,ImagePullJob,Job,PersistentVolumeClaim,PodProbeMarker,PodUnavailableBudget,ReplicaSet,ResourceDistribution,Secret,Service,ServiceAccount,ServiceExport,SidecarSet,StatefulSet,UnitedDeployment,WorkloadSpread]", "allow-namespaces": "[]", "leader-elect": "true", "cloneset-short-hash": "false", "beside-openkruise": "false", "log-level": "info", "webhook-bind-address": ":9443", "webhook-url": ""} {
		flag := newCommand().Flags().Lookup(name)
		if flag == nil || flag.DefValue != want || flag.Usage == "" {
			t.Errorf("--%s is %+v, want the default %q and a help text", name, flag, want)
		}
	}
}
