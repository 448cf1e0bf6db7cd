package fleet

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// loopback is the address that every listener is bound to: etcd has no authentication.
const loopback = "127.0.0.1"

// clusterPorts are the TCP ports of one control plane, and of the webhook that a program of ours serves for it.
type clusterPorts struct {
	APIServer, Etcd, EtcdPeer, ControllerManager, Scheduler, Kwok, Webhook int
}

// portsPerCluster is the number of fields of clusterPorts.
const portsPerCluster = 7

func portsFrom(p []int) clusterPorts {
	return clusterPorts{APIServer: p[0], Etcd: p[1], EtcdPeer: p[2], ControllerManager: p[3], Scheduler: p[4], Kwok: p[5],
		Webhook: p[6]}
}

// kwokConfig returns the file that tells kwokctl everything about one cluster; nothing is left to its defaults that
// touches the network, the user's kubeconfig or another cluster.
func kwokConfig(cfg *Config, spec ClusterSpec, dir string, ports clusterPorts, auditPolicy string) ([]byte, error) {
	pki := filepath.Join(dir, "clusters", spec.Name, "pki")
	bin := func(name string) string { return filepath.Join(cfg.Bin, name) }
	var disabled []string
	if spec.NoKubelets {
		disabled = []string{"kube-scheduler", "kwok-controller"}
	}
	options := map[string]any{
		"runtime":                     "binary",
		"bindAddress":                 loopback,
		"disable":                     disabled,
		"disableQPSLimits":            !cfg.KeepQPSLimits,
		"kubeAuthorization":           true,
		"kubeAdmission":               true,
		"kubeAuditPolicy":             auditPolicy,
		"etcdBinary":                  bin("etcd"),
		"kubeApiserverBinary":         bin("kube-apiserver"),
		"kubeControllerManagerBinary": bin("kube-controller-manager"),
		"kubeSchedulerBinary":         bin("kube-scheduler"),
		"kubectlBinary":               bin("kubectl"),
		"kwokControllerBinary":        bin("kwok"),
		"kubeApiserverPort":           ports.APIServer,
		"etcdPort":                    ports.Etcd,
		"etcdPeerPort":                ports.EtcdPeer,
		"kubeControllerManagerPort":   ports.ControllerManager,
		"kubeSchedulerPort":           ports.Scheduler,
		"kwokControllerPort":          ports.Kwok,
	}
	type arg struct {
		Key   string `json:"key"`
		Value string `json:"value"`
	}
	life := cfg.CertificateLife
	if life == 0 {
		life = 365 * 24 * time.Hour // as the signer has it by default
	}
	patches := []map[string]any{
		// A control plane of minutes need not survive a power cut, and disks of test machines are slow.
		{"name": "etcd", "extraArgs": []arg{{"unsafe-no-fsync", "true"}}},
		{"name": "kube-controller-manager", "extraArgs": []arg{
			{"cluster-signing-cert-file", filepath.Join(pki, "ca.crt")},
			{"cluster-signing-key-file", filepath.Join(pki, "ca.key")},
			{"cluster-signing-duration", life.String()},
			// There is one of each. With an election the next one would wait 15 s for the Lease of a killed one.
			{"leader-elect", "false"},
			// As everywhere: the garbage collector and the controller of namespaces have names of their own.
			{"use-service-account-credentials", "true"},
		}},
		{"name": "kube-scheduler", "extraArgs": []arg{{"leader-elect", "false"}}},
	}
	documents := []any{
		map[string]any{
			"apiVersion": "config.kwok.x-k8s.io/v1alpha1", "kind": "KwokctlConfiguration",
			"options": options, "componentsPatches": patches,
		},
		map[string]any{
			"apiVersion": "config.kwok.x-k8s.io/v1alpha1", "kind": "KwokConfiguration",
			"options": map[string]any{
				"cidr": "10.0.0.1/16", // of the pods
				// 4 by default, which makes the simulated kubelets the slowest part of a rollout of hundreds of pods.
				"podPlayStageParallelism":  32,
				"nodePlayStageParallelism": 16,
				// Nodes with the annotation, and the pods on them, are left alone.
				"disregardStatusWithAnnotationSelector": AnnotationKubelet + "=" + KubeletNone,
			},
		},
	}
	var out bytes.Buffer
	for _, document := range documents {
		data, err := yaml.Marshal(document)
		if err != nil {
			return nil, fmt.Errorf("write kwok configuration of %s: %w", spec.Name, err)
		}
		out.WriteString("---\n")
		out.Write(data)
	}
	// Stages as objects of a cluster would be seen up to 5 s later: kwok looks for their kind at that interval.
	out.Write(stages)
	return out.Bytes(), nil
}

// kwokctl runs `kwokctl verb cluster` for the cluster. Its pid is recorded, so that the watchdog ends it first.
func (c *Cluster) kwokctl(ctx context.Context, verb string) error {
	args := []string{verb, "cluster", "--name", c.Name, "--config", c.configPath()}
	if verb == "create" {
		args = append(args,
			// Without this it writes into the user's own kubeconfig.
			"--kubeconfig", "",
			// With Leases, nobody would run the pods of a cluster that was stopped and started until those of the
			// killed kwok have expired. The stage node-heartbeat does instead.
			"--node-lease-duration-seconds", "0")
	}
	cmd := exec.CommandContext(ctx, filepath.Join(c.fleet.cfg.Bin, "kwokctl"), args...)
	cmd.Env = append(os.Environ(),
		"KWOK_WORKDIR="+c.fleet.Dir,
		// It asks the API server by kubectl, which it takes from the PATH before its own setting.
		"PATH="+c.fleet.cfg.Bin+string(os.PathListSeparator)+os.Getenv("PATH"),
	)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = ownSession()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%s cluster %s: %w", verb, c.Name, err)
	}
	pidFile := filepath.Join(c.fleet.Dir, "pids", "kwokctl-"+c.Name+".pid")
	writeErr := os.WriteFile(pidFile, []byte(strconv.Itoa(cmd.Process.Pid)), 0o600)
	defer os.Remove(pidFile)
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%s cluster %s: %w\n%s%s", verb, c.Name, err, lastLines(out.String(), 15), c.componentErrors())
	}
	if writeErr != nil {
		return fmt.Errorf("%s cluster %s: %w", verb, c.Name, writeErr)
	}
	return nil
}

// deadComponents returns the names of the control plane's components that were started and run no more.
func (c *Cluster) deadComponents() []string {
	files, _ := filepath.Glob(filepath.Join(c.dir(), "pids", "*.pid")) // the pattern is well formed
	var dead []string
	for _, file := range files {
		pid, err := readPid(file)
		if err == nil && !belongs(pid, c.fleet.Dir) {
			dead = append(dead, strings.TrimSuffix(filepath.Base(file), ".pid"))
		}
	}
	return dead
}

// componentErrors returns the end of the logs of components that have died, or else of the API server, for the error of
// a cluster that does not work.
func (c *Cluster) componentErrors() string {
	names := c.deadComponents()
	if len(names) == 0 {
		names = []string{"kube-apiserver"}
	}
	var out strings.Builder
	for _, name := range names {
		path := filepath.Join(c.LogDir(), name+".log")
		data, err := os.ReadFile(path)
		if err != nil || len(data) == 0 {
			continue
		}
		fmt.Fprintf(&out, "\n%s:", path)
		for line := range strings.Lines(lastLines(string(data), 3)) {
			const longest = 300 // what is longer repeats whole objects
			line = strings.TrimSpace(line)
			fmt.Fprintf(&out, "\n%s", line[:min(len(line), longest)])
		}
	}
	return out.String()
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return strings.Join(lines, "\n")
}
