// Command routes gives its node a route to the pods of each other node of the cluster: the network of the nodes is one
// segment, so the other node's address is the gateway. It runs as a DaemonSet in the network of the node.
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// again is how often nodes are read: they come once, and change their address only when their container starts anew.
const again = 3 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, os.Getenv("NODE_NAME")); err != nil {
		fmt.Fprintln(os.Stderr, "routes:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, self string) error {
	config, err := rest.InClusterConfig()
	if err != nil {
		return fmt.Errorf("read the credentials of the pod: %w", err)
	}
	config.Timeout = again
	cluster, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	tick := time.NewTicker(again)
	defer tick.Stop()
	for {
		if err := route(ctx, cluster, self); err != nil {
			fmt.Fprintln(os.Stderr, "routes:", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func route(ctx context.Context, cluster kubernetes.Interface, self string) error {
	nodes, err := cluster.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	for i := range nodes.Items {
		n := &nodes.Items[i]
		_, pods, err := net.ParseCIDR(n.Spec.PodCIDR)
		gateway := address(n)
		if n.Name == self || err != nil || gateway == nil {
			continue // itself, or not ready to have pods
		}
		if err := netlink.RouteReplace(&netlink.Route{Dst: pods, Gw: gateway}); err != nil {
			return fmt.Errorf("set the route to %s by %s: %w", pods, gateway, err)
		}
	}
	return nil
}

// address returns the node's own IPv4 address, nil if it has none.
func address(n *corev1.Node) net.IP {
	for _, a := range n.Status.Addresses {
		if ip := net.ParseIP(a.Address); a.Type == corev1.NodeInternalIP && ip.To4() != nil {
			return ip
		}
	}
	return nil
}
