package fleet

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// HubName is the name of the hub's cluster in every fleet.
const HubName = "hub"

// binaries are the programs that a fleet needs, by their file names in Config.Bin.
var binaries = [...]string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kwok",
	"kwokctl"}

// Config says what a fleet consists of.
type Config struct {
	// Bin is the folder with the control-plane programs. FindBinaries looks for one.
	Bin string
	// Dir is the folder that holds everything of the fleet; it is made, and removed by Destroy.
	// Empty means a new folder below Root.
	Dir string
	// NoHub leaves the hub out, for tests of one cluster.
	NoHub bool
	// Hub is the hub's cluster; its name is always HubName. Without nodes it runs neither a scheduler nor kwok.
	Hub ClusterSpec
	// Members are the member clusters, at most 16.
	Members []ClusterSpec
	// Audit writes one line for every mutating request to each cluster's AuditLog.
	Audit bool
	// AuditPolicy is the path of an audit policy that replaces the built-in one. It implies Audit.
	AuditPolicy string
	// CertificateLife is how long the certificates live that a cluster's signer makes; 0 means a year. Renewal is watched
	// with a short one.
	CertificateLife time.Duration
	// KeepQPSLimits leaves the client limits of the control plane's own components in force. Without it nothing is
	// limited, which is what comparisons of speed need.
	KeepQPSLimits bool
	// Detached lets the fleet live on after this process ends, until Open(dir) and Destroy.
	// Otherwise a watchdog removes it when this process ends, however it ends.
	Detached bool
	// Env returns additional KEY=value settings of a program of ours that is started; nil: there are none.
	Env func(program string) []string
	// Progress receives one sentence per step; nil drops them. It is called from several goroutines.
	Progress func(step string)
}

// ClusterSpec describes one cluster.
type ClusterSpec struct {
	// Name is a DNS label, unique in the fleet.
	Name string
	// Nodes are the simulated nodes.
	Nodes []NodeSpec
	// NoKubelets leaves the scheduler and the simulated kubelets out: pods stay Pending.
	NoKubelets bool
}

// NodeSpec describes one simulated node.
type NodeSpec struct {
	// Name of the node, unique in its cluster.
	Name string
	// Region and Zone become the well-known topology labels; empty leaves the label out.
	Region, Zone string
	// CPU and Memory are quantities of allocatable resources; empty means 32 and 256Gi.
	CPU, Memory string
	// Pods is the number of pods that fit; 0 means 1000, so that a few nodes carry a large test.
	Pods int64
	// Taints keep pods away.
	Taints []corev1.Taint
	// Labels are added to the node.
	Labels map[string]string
}

// Nodes returns count nodes for each of zones, named <cluster>-<zone>-<n>, in region.
func Nodes(cluster, region string, zones []string, count int) []NodeSpec {
	nodes := make([]NodeSpec, 0, len(zones)*count)
	for _, zone := range zones {
		for i := range count {
			nodes = append(nodes, NodeSpec{Name: fmt.Sprintf("%s-%s-%d", cluster, zone, i), Region: region, Zone: zone})
		}
	}
	return nodes
}

// clusters returns the specs of all clusters, the hub first.
func (c *Config) clusters() []ClusterSpec {
	specs := make([]ClusterSpec, 0, 1+len(c.Members))
	if !c.NoHub {
		hub := c.Hub
		hub.Name = HubName
		if len(hub.Nodes) == 0 {
			hub.NoKubelets = true
		}
		specs = append(specs, hub)
	}
	return append(specs, c.Members...)
}

func (c *Config) validate() error {
	// 17 control planes take about 8 GiB; more is a typing error sooner than a wish.
	const mostMembers = 16
	if len(c.Members) > mostMembers {
		return fmt.Errorf("%d members asked for, a fleet has at most %d", len(c.Members), mostMembers)
	}
	seen := map[string]bool{}
	for _, spec := range c.clusters() {
		if msgs := validation.IsDNS1123Label(spec.Name); len(msgs) > 0 {
			return fmt.Errorf("cluster name %q: %s", spec.Name, strings.Join(msgs, ", "))
		}
		if seen[spec.Name] {
			return fmt.Errorf("two clusters are named %q", spec.Name)
		}
		seen[spec.Name] = true
	}
	return CheckBinaries(c.Bin)
}

// CheckBinaries returns an error that names the programs which dir lacks, or nil.
func CheckBinaries(dir string) error {
	var missing []string
	for _, name := range binaries {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("folder %q lacks %s; run `make setup`, or name a folder that has them", dir,
			strings.Join(missing, ", "))
	}
	return nil
}

// FindBinaries returns the folder with the control-plane programs: the environment variable FLOTILLA_BIN if it is set,
// else the nearest .bin folder upwards from the working directory. It says what to do where neither is complete.
func FindBinaries() (string, error) {
	if dir := os.Getenv("FLOTILLA_BIN"); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the control-plane programs: %w", err)
	}
	for {
		candidate := filepath.Join(dir, ".bin")
		if CheckBinaries(candidate) == nil {
			return candidate, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("no .bin folder with %s here or above; run `make setup`, or set FLOTILLA_BIN",
				strings.Join(binaries[:], ", "))
		}
		dir = parent
	}
}

// LinkBinaries makes the folder dir with links to the control-plane programs on the PATH, and returns it. The error
// names those that are not there.
func LinkBinaries(dir string) (string, error) {
	var missing []string
	found := map[string]string{}
	for _, name := range binaries {
		path, err := exec.LookPath(name)
		if err == nil {
			path, err = filepath.Abs(path)
		}
		if err != nil {
			missing = append(missing, name)
			continue
		}
		found[name] = path
	}
	if len(missing) > 0 {
		return "", fmt.Errorf("the PATH lacks %s", strings.Join(missing, ", "))
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("link the control-plane programs: %w", err)
	}
	for name, path := range found {
		link := filepath.Join(dir, name)
		if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("link the control-plane programs: %w", err)
		}
		if err := os.Symlink(path, link); err != nil {
			return "", fmt.Errorf("link the control-plane programs: %w", err)
		}
	}
	return dir, nil
}

// UnlinkBinaries removes the links that LinkBinaries made in a folder, and the folder if nothing else is in it. It does
// nothing where there is none.
func UnlinkBinaries(dir string) error {
	for _, name := range binaries {
		link := filepath.Join(dir, name)
		info, err := os.Lstat(link)
		if err == nil && info.Mode()&fs.ModeSymlink != 0 {
			err = os.Remove(link)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove the links to the control-plane programs: %w", err)
		}
	}
	_ = os.Remove(dir) // what is not empty stays
	return nil
}
