package fleet

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// AddNodes creates simulated nodes; nodes that exist stay as they are. It does not wait until they are Ready.
func (c *Cluster) AddNodes(ctx context.Context, nodes ...NodeSpec) error {
	client, err := kubernetes.NewForConfig(c.admin)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", c.Name, err)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16) // as many as one API server works on at a time
	for i, spec := range nodes {
		node, err := spec.node(i)
		if err != nil {
			return fmt.Errorf("node %s of %s: %w", spec.Name, c.Name, err)
		}
		group.Go(func() error {
			_, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
			if err != nil && !apierrors.IsAlreadyExists(err) {
				return fmt.Errorf("create node %s in %s: %w", node.Name, c.Name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

func (n NodeSpec) node(number int) (*corev1.Node, error) {
	cpu, memory, pods := n.CPU, n.Memory, n.Pods
	if cpu == "" {
		cpu = "32"
	}
	if memory == "" {
		memory = "256Gi"
	}
	if pods == 0 {
		pods = 1000
	}
	resources := corev1.ResourceList{corev1.ResourcePods: *resource.NewQuantity(pods, resource.DecimalSI)}
	for name, text := range map[corev1.ResourceName]string{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory} {
		quantity, err := resource.ParseQuantity(text)
		if err != nil {
			return nil, fmt.Errorf("%s %q: %w", name, text, err)
		}
		resources[name] = quantity
	}
	labels := map[string]string{
		corev1.LabelHostname:   n.Name,
		corev1.LabelOSStable:   "linux",
		corev1.LabelArchStable: "amd64",
	}
	if n.Region != "" {
		labels[corev1.LabelTopologyRegion] = n.Region
	}
	if n.Zone != "" {
		labels[corev1.LabelTopologyZone] = n.Zone
	}
	maps.Copy(labels, n.Labels)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: n.Name, Labels: labels, Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"},
		},
		Spec: corev1.NodeSpec{Taints: n.Taints},
		Status: corev1.NodeStatus{
			Allocatable: resources, Capacity: resources,
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeHostName, Address: n.Name},
				// From the range that is set aside for measurements; nothing ever answers there.
				{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("198.18.%d.%d", number/256, number%256)},
			},
		},
	}, nil
}

// waitUsable returns when all components work, every node is Ready and free of the taint of new nodes, and pods can be
// made in the namespace default. Components that died are started again: the controller manager gives a slow API server
// only 10 s to come up.
func (c *Cluster) waitUsable(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.admin)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", c.Name, err)
	}
	var last error
	err = poll(ctx, 3*time.Minute, func(ctx context.Context) (bool, error) {
		if dead := c.deadComponents(); len(dead) > 0 {
			c.fleet.progress("%s: starting %s again", c.Name, strings.Join(dead, " and "))
			if err := c.kwokctl(ctx, "start"); err != nil {
				return false, err
			}
		}
		last = c.usable(ctx, client)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("wait for %s to be usable: %w: %w%s", c.Name, err, last, c.componentErrors())
	}
	return nil
}

// usable returns nil when what waitUsable waits for is there.
func (c *Cluster) usable(ctx context.Context, client kubernetes.Interface) error {
	if err := healthy(ctx, "kube-controller-manager", c.ports.ControllerManager); err != nil {
		return err
	}
	// Without it the admission of pods fails.
	if _, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default",
		metav1.GetOptions{}); err != nil {
		return err
	}
	if c.spec.NoKubelets {
		return nil
	}
	if err := healthy(ctx, "kube-scheduler", c.ports.Scheduler); err != nil {
		return err
	}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range nodes.Items {
		if why := notUsable(&nodes.Items[i]); why != "" {
			return errors.New(why)
		}
	}
	return nil
}

// healthy asks the component that serves /healthz on the port.
func healthy(ctx context.Context, component string, port int) error {
	client := &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, // its certificate is its own
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("https://%s:%d/healthz", loopback, port),
		http.NoBody)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("%s does not answer: %w", component, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", component, response.Status)
	}
	return nil
}

func notUsable(node *corev1.Node) string {
	for _, taint := range node.Spec.Taints {
		if taint.Key == corev1.TaintNodeNotReady {
			return fmt.Sprintf("node %s has the taint %s", node.Name, taint.Key)
		}
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
			return ""
		}
	}
	return fmt.Sprintf("node %s is not Ready", node.Name)
}
