package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	componentversion "k8s.io/component-base/version"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/flotilla-dev/flotilla/cmd/internal/clocks"
	"github.com/flotilla-dev/flotilla/cmd/internal/logs"
	"github.com/flotilla-dev/flotilla/member-agent/nodedaemon"
	"github.com/flotilla-dev/flotilla/member-agent/nodedaemon/cri"
	"github.com/flotilla-dev/flotilla/member-agent/nodedaemon/images"
)

const (
	// defaultHealthAddress is on localhost: only the kubelet asks, by the command probe.
	defaultHealthAddress = "127.0.0.1:10231"
	// nodeVariable is the environment variable that names the node, which the chart sets.
	nodeVariable = "NODE_NAME"
	// waitForDefinitions is how long the program waits for a definition that is not installed: for as long as it runs.
	waitForDefinitions = 10 * 365 * 24 * time.Hour
)

// flags of the command.
type flags struct {
	kubeconfig                    string
	node                          string
	runtime                       cri.Options
	metricsAddress, healthAddress string
	pullWorkers                   int
	logLevel, logFormat           string
}

func newCommand() *cobra.Command {
	f := &flags{}
	command := &cobra.Command{
		Use:   nodedaemon.Program,
		Short: "Does on a node of a member what needs its container runtime",
		Long: "flotilla-node runs on every node of a member cluster, as a DaemonSet. It connects to the socket of the " +
			"node's container runtime, reads the objects of its node, and reports in their status.",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version(),
		RunE:          func(command *cobra.Command, _ []string) error { return run(command.Context(), f) },
	}
	set := command.Flags()
	set.StringVar(&f.kubeconfig, "kubeconfig", "", "path of the member's kubeconfig; "+
		"empty means $KUBECONFIG, then the pod's own service account, then ~/.kube/config")
	set.StringVar(&f.node, "node-name", os.Getenv(nodeVariable), "name of the node; the default is $"+nodeVariable)
	set.StringVar(&f.runtime.Endpoint, strings.TrimPrefix(cri.Flag, "--"), "", "socket of the container runtime, such as "+
		"unix:///run/containerd/containerd.sock; empty means the one of containerd, CRI-O or cri-dockerd that answers")
	set.StringVar(&f.runtime.Directory, "runtime-directory", cri.DefaultDirectory,
		"folder in which sockets of container runtimes are looked for")
	set.StringVar(&f.metricsAddress, "metrics-bind-address", ":10232", "address that serves metrics; 0 turns them off")
	set.StringVar(&f.healthAddress, "health-probe-bind-address", defaultHealthAddress,
		"address that serves /healthz and /readyz; 0 turns them off")
	set.IntVar(&f.pullWorkers, "image-pull-workers", images.DefaultWorkers, "images that are pulled at the same time")
	set.StringVar(&f.logLevel, "log-level", "info", "debug, info or error")
	set.StringVar(&f.logFormat, "log-format", "text", "text or json")
	command.AddCommand(newProbe())
	command.CompletionOptions.DisableDefaultCmd = true
	return command
}

// validate returns what is wrong with the flags. It sends no requests.
func (f *flags) validate() error {
	if f.node == "" {
		return fmt.Errorf("--node-name is empty: give the name of this node, or set $%s", nodeVariable)
	}
	if wrong := validation.IsDNS1123Subdomain(f.node); len(wrong) > 0 {
		return fmt.Errorf("--node-name %q is no name of a node: %s", f.node, strings.Join(wrong, ", "))
	}
	if scheme, _, ok := strings.Cut(f.runtime.Endpoint, "://"); ok && scheme != "unix" {
		return fmt.Errorf("%s %s is no Unix socket: give unix:///path/of/the.sock", cri.Flag, f.runtime.Endpoint)
	}
	if f.pullWorkers < 1 {
		return fmt.Errorf("--image-pull-workers %d must be at least 1", f.pullWorkers)
	}
	const off = "0"
	if f.healthAddress == off {
		return nil
	}
	if _, _, err := net.SplitHostPort(f.healthAddress); err != nil {
		return fmt.Errorf("--health-probe-bind-address %q is neither 0 nor an address as %s", f.healthAddress,
			defaultHealthAddress)
	}
	return nil
}

func run(ctx context.Context, f *flags) error {
	if err := f.validate(); err != nil {
		return err
	}
	log, err := logs.New(f.logLevel, f.logFormat)
	if err != nil {
		return err
	}
	ctrl.SetLogger(log)
	klog.SetLogger(log)
	config, err := memberConfig(f.kubeconfig)
	if err != nil {
		return err
	}
	mgr, err := newManager(f, config, log, parts(f, log))
	if err != nil {
		return err
	}
	log.Info("flotilla-node starts", "version", version(), "node", f.node, "member", config.Host)
	return mgr.Start(ctx)
}

// newManager returns a manager that runs the daemon with its parts.
func newManager(f *flags, config *rest.Config, log logr.Logger, all []nodedaemon.Part) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	if err := nodedaemon.AddToScheme(scheme, all); err != nil {
		return nil, err
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme, Logger: log,
		Cache: nodedaemon.CacheOptions(f.node, all),
		// A Secret is read by its name, and never listed.
		Client:                 client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},
		Metrics:                server.Options{BindAddress: f.metricsAddress},
		HealthProbeBindAddress: f.healthAddress,
		// Parts whose definitions are not installed yet wait for them; the others work.
		Controller: ctrlconfig.Controller{CacheSyncTimeout: waitForDefinitions},
	})
	if err != nil {
		return nil, fmt.Errorf("set up the daemon for the member at %s: %w", config.Host, err)
	}
	daemon, err := nodedaemon.Setup(mgr, nodedaemon.Options{
		Node: f.node, CRI: f.runtime, Parts: all, Clock: clocks.New(), Log: log, Registry: metrics.Registry,
	})
	if err != nil {
		return nil, err
	}
	err = errors.Join(mgr.AddHealthzCheck("ping", func(*http.Request) error { return nil }),
		mgr.AddReadyzCheck("runtime", daemon.Health().Ready))
	if err != nil {
		return nil, fmt.Errorf("set up health checks: %w", err)
	}
	return mgr, nil
}

func memberConfig(path string) (*rest.Config, error) {
	var config *rest.Config
	var err error
	if path == "" {
		if config, err = ctrl.GetConfig(); err != nil {
			return nil, fmt.Errorf("no kubeconfig for the member: give --kubeconfig, set KUBECONFIG, "+
				"or run in a pod of the member: %w", err)
		}
	} else if config, err = clientcmd.BuildConfigFromFlags("", path); err != nil {
		return nil, fmt.Errorf("--kubeconfig %s is no usable kubeconfig: %w", path, err)
	}
	config.UserAgent = nodedaemon.Program + "/" + version()
	return config, nil
}

// version is what the build stamped: a tag, or a commit.
func version() string { return componentversion.Get().GitVersion }
