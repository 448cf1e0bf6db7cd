package sysdump

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgo "k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

const (
	// page is how many objects are asked for at once.
	page = 500
	// logLines and logBytes bound what is taken of the log of one container.
	logLines = int64(20_000)
	logBytes = int64(10 << 20)
)

// where says which objects of a kind are taken.
type where int

const (
	everywhere where = iota
	// inSystem: those of the programs' namespace, and on the hub of members' namespaces.
	inSystem
	// beside: those of the namespaces that have workloads of ours, and of the programs' namespace.
	beside
)

// wanted is a kind that is taken. No kind here holds secrets by itself; what may be secret inside is left out by
// redact.
type wanted struct {
	schema.GroupVersionKind
	where where
	// workloads tells that the namespaces of these objects are looked into.
	workloads bool
}

func kind(group, version, name string, from where) wanted {
	return wanted{GroupVersionKind: schema.GroupVersionKind{Group: group, Version: version, Kind: name}, where: from}
}

// kinds are those of a hub or a member, in the order in which they are read: those with workloads come first.
func kinds(hub bool) []wanted {
	const kruise, flotilla = "apps.kruise.io", "topology.flotilla.dev"
	all := []wanted{
		kind(kruise, "v1beta1", "AdvancedCronJob", everywhere),
		kind(kruise, "v1beta1", "BroadcastJob", everywhere),
		kind(kruise, "v1beta1", "CloneSet", everywhere),
		kind(kruise, "v1beta1", "DaemonSet", everywhere),
		kind(kruise, "v1beta1", "StatefulSet", everywhere),
		kind("policy.kruise.io", "v1beta1", "PodUnavailableBudget", everywhere),
		kind(kruise, "v1beta1", "UnitedDeployment", everywhere),
		kind(kruise, "v1beta1", "WorkloadSpread", everywhere),
	}
	for i := range all {
		all[i].workloads = true
	}
	all = append(all, kind(kruise, "v1beta1", "SidecarSet", everywhere)) // of no namespace
	if hub {
		all = append(
			all,
			kind(flotilla, "v1alpha1", "MemberCluster", everywhere),
			kind(flotilla, "v1alpha1", "FederationPolicy", everywhere),
			kind(
				flotilla,
				"v1alpha1",
				"ClusterFederationPolicy",
				everywhere,
			),
			kind(flotilla, "v1alpha1", "WorkloadPlacement", everywhere),
			kind("work.karmada.io", "v1alpha1", "Work", everywhere),
			kind("", "v1", "Namespace", everywhere),
			kind("certificates.k8s.io", "v1", "CertificateSigningRequest", everywhere),
		)
	} else {
		all = append(all, kind("", "v1", "Node", everywhere), kind("apps", "v1", "StatefulSet", beside),
			kind("apps", "v1", "ReplicaSet", beside),
			kind("admissionregistration.k8s.io", "v1", "MutatingWebhookConfiguration", everywhere))
	}
	return append(
		all,
		kind("apps", "v1", "Deployment", beside),
		kind("", "v1", "Pod", beside),
		kind("", "v1", "Event", beside),
		kind("coordination.k8s.io", "v1", "Lease", inSystem),
	)
}

// cluster is one that is looked at.
type cluster struct {
	// folder of the archive: hub, or members/<name>.
	folder string
	hub    bool
	client client.Client
	core   clientgo.Interface
}

// gather reads a cluster into the archive. What cannot be read is noted, and the rest is read all the same.
func (c *cluster) gather(ctx context.Context, a *archive) {
	info, err := c.core.Discovery().ServerVersion()
	if err != nil {
		a.lacks(c.folder, err)
		return // it does not answer
	}
	if data, err := json.MarshalIndent(info, "", "  "); err == nil {
		a.add(path.Join(c.folder, "version.json"), append(data, '\n'))
	}
	namespaces := map[string]bool{topology.SystemNamespace: true}
	for _, w := range kinds(c.hub) {
		objects, err := c.list(ctx, w, namespaces)
		plural, _ := meta.UnsafeGuessKindToResource(w.GroupVersionKind)
		name := path.Join(c.folder, plural.Resource+"."+strings.TrimPrefix(w.Group+".", ".")+"yaml")
		switch {
		case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
			a.note("%s: this cluster has no %s", c.folder, w.GroupKind())
			continue
		case err != nil:
			a.lacks(name, err)
		}
		if w.workloads {
			for i := range objects {
				namespaces[objects[i].GetNamespace()] = true
			}
		}
		if len(objects) > 0 {
			data, err := encode(objects)
			if err != nil {
				a.lacks(name, err)
				continue
			}
			a.add(name, data)
		}
	}
	c.logs(ctx, a)
}

// list reads the objects of a kind, redacted and sorted. With an error it returns those that were read before.
func (c *cluster) list(ctx context.Context, w wanted, namespaces map[string]bool) ([]unstructured.Unstructured, error) {
	from := []string{""}
	if w.where == beside || w.where == inSystem && !c.hub {
		from = from[:0]
		for namespace := range namespaces {
			if w.where == beside || namespace == topology.SystemNamespace {
				from = append(from, namespace)
			}
		}
		slices.Sort(from)
	}
	var all []unstructured.Unstructured
	for _, namespace := range from {
		next := ""
		for {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(w.GroupVersion().WithKind(w.Kind + "List"))
			if err := c.client.List(ctx, list, client.InNamespace(namespace), client.Limit(page),
				client.Continue(next)); err != nil {
				return all, err
			}
			for i := range list.Items {
				if c.concerns(w, &list.Items[i]) {
					redact(&list.Items[i])
					all = append(all, list.Items[i])
				}
			}
			if next = list.GetContinue(); next == "" {
				break
			}
		}
	}
	return all, nil
}

// concerns tells whether an object is ours to show.
func (c *cluster) concerns(w wanted, o *unstructured.Unstructured) bool {
	switch w.Kind {
	case "Lease":
		_, member := wire.MemberOf(o.GetNamespace())
		return member || o.GetNamespace() == topology.SystemNamespace
	case "CertificateSigningRequest":
		return strings.HasPrefix(o.GetName(), topology.JoinObject(""))
	case "MutatingWebhookConfiguration":
		return strings.HasPrefix(o.GetName(), "flotilla")
	}
	return true
}

// encode returns the objects as YAML documents.
func encode(objects []unstructured.Unstructured) ([]byte, error) {
	var out []byte
	for i := range objects {
		data, err := yaml.Marshal(objects[i].Object)
		if err != nil {
			return nil, fmt.Errorf("encode %s %s: %w", objects[i].GetKind(), objects[i].GetName(), err)
		}
		out = append(append(out, "---\n"...), data...)
	}
	return out, nil
}

// logs reads the logs of the programs' pods: of each container the end, and of one that was started again also what it
// said before.
func (c *cluster) logs(ctx context.Context, a *archive) {
	pods := &corev1.PodList{}
	if err := c.client.List(ctx, pods, client.InNamespace(topology.SystemNamespace),
		client.MatchingLabels{"app.kubernetes.io/part-of": "flotilla"}); err != nil {
		a.lacks(path.Join(c.folder, "logs"), err)
		return
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		for _, status := range pod.Status.ContainerStatuses {
			c.log(ctx, a, pod.Name, status.Name, false)
			if status.RestartCount > 0 {
				c.log(ctx, a, pod.Name, status.Name, true)
			}
		}
	}
}

func (c *cluster) log(ctx context.Context, a *archive, pod, container string, previous bool) {
	name := path.Join(c.folder, "logs", pod, container+".log")
	if previous {
		name = path.Join(c.folder, "logs", pod, container+".previous.log")
	}
	lines, bytes := logLines, logBytes
	asked, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	data, err := c.core.CoreV1().Pods(topology.SystemNamespace).GetLogs(pod, &corev1.PodLogOptions{
		Container: container, Previous: previous, TailLines: &lines, LimitBytes: &bytes, Timestamps: false,
	}).DoRaw(asked)
	if err != nil {
		a.lacks(name, err)
		return
	}
	a.add(name, data)
}
