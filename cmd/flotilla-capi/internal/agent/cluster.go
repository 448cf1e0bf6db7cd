package agent

import (
	"context"
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/inventory/capi"
	"github.com/flotilla-dev/flotilla/hub/inventory/registration"
	"github.com/flotilla-dev/flotilla/member-agent/admission"
	"github.com/flotilla-dev/flotilla/member-agent/admission/deletion"
	"github.com/flotilla-dev/flotilla/member-agent/link/credential"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/guard"
)

const (
	// manager is the field manager.
	manager = client.FieldOwner("flotilla-capi")
	// uninitialized is the taint of a node that a cloud provider has not looked at: it gives it a zone of its own.
	uninitialized = "node.cloudprovider.kubernetes.io/uninitialized"
)

// Dialer dials clusters.
type Dialer struct {
	// File has the agent's objects. It is read each time: where it is a mounted ConfigMap, a new release changes it.
	File        string
	definitions *Definitions
	scheme      *runtime.Scheme
}

// NewDialer returns a dialer, once the file can be read.
func NewDialer(file string) (*Dialer, error) {
	definitions, err := ReadDefinitions()
	if err != nil {
		return nil, err
	}
	if _, err := Read(file, definitions); err != nil {
		return nil, err
	}
	scheme, err := registration.Scheme()
	if err != nil {
		return nil, err
	}
	for _, add := range []func(*runtime.Scheme) error{appsv1.AddToScheme, admissionregistrationv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("build the scheme: %w", err)
		}
	}
	return &Dialer{File: file, definitions: definitions, scheme: scheme}, nil
}

// Dial is a capi.Dial.
func (d *Dialer) Dial(cfg *rest.Config) (capi.Cluster, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.UserAgent = string(manager)
	c, err := client.New(cfg, client.Options{Scheme: d.scheme})
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", cfg.Host, err)
	}
	return &cluster{client: c, manifests: func() (*Manifests, error) { return Read(d.File, d.definitions) }}, nil
}

// cluster is a capi.Cluster.
type cluster struct {
	client    client.Client
	manifests func() (*Manifests, error)
}

var _ capi.Cluster = &cluster{}

// Look is documented by capi.Cluster.
func (c *cluster) Look(ctx context.Context) (*capi.Sight, error) {
	system := &corev1.Namespace{}
	if err := c.client.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, system); err != nil {
		return nil, fmt.Errorf("read the identity of the cluster, the uid of its namespace kube-system: %w", err)
	}
	sight := &capi.Sight{ClusterID: string(system.UID)}
	secret := &corev1.Secret{}
	if err := c.client.Get(ctx, client.ObjectKey{Namespace: topology.SystemNamespace, Name: topology.JoinSecret},
		secret); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read Secret %s/%s: %w", topology.SystemNamespace, topology.JoinSecret, err)
	} else if err == nil {
		// One that cannot be read is written anew.
		if j, err := credential.ReadJoin(ctx, c.client, topology.SystemNamespace, topology.JoinSecret); err == nil {
			sight.Join = &capi.Join{Name: j.Name, UID: j.UID, Server: j.Server, CA: j.CA, Expires: j.Expires}
		}
	}
	secret = &corev1.Secret{}
	if err := c.client.Get(ctx, client.ObjectKey{Namespace: topology.SystemNamespace, Name: topology.CredentialSecret},
		secret); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read Secret %s/%s: %w", topology.SystemNamespace, topology.CredentialSecret, err)
	} else if err == nil {
		sight.Fingerprint, _ = credential.Fingerprint(secret.Data[topology.CredentialKey]) // none that can be read is none
	}
	m, err := c.manifests()
	if err != nil {
		return nil, err
	}
	have := &appsv1.Deployment{}
	err = c.client.Get(ctx, client.ObjectKeyFromObject(m.deployment), have)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read Deployment %s/%s: %w", m.deployment.GetNamespace(), m.deployment.GetName(), err)
	}
	sight.Installed = err == nil && (have.Annotations[installed] == m.hash || have.Labels[managedBy] == helm)
	return sight, nil
}

// Equip is documented by capi.Cluster.
func (c *cluster) Equip(ctx context.Context, j capi.Join) (string, error) {
	return credential.Equip(
		ctx,
		c.client,
		&credential.Join{Name: j.Name, UID: j.UID, Server: j.Server, CA: j.CA, Token: j.Token, Expires: j.Expires},
	)
}

// Install is documented by capi.Cluster.
func (c *cluster) Install(ctx context.Context) error {
	m, err := c.manifests()
	if err != nil {
		return err
	}
	for _, object := range slices.Concat(m.definitions, m.objects, []*unstructured.Unstructured{m.deployment}) {
		have := &metav1.PartialObjectMetadata{}
		have.SetGroupVersionKind(object.GroupVersionKind())
		err := c.client.Get(ctx, client.ObjectKeyFromObject(object), have)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("read %s %s: %w", object.GetKind(), client.ObjectKeyFromObject(object), err)
		}
		if err == nil && others(object.GetKind(), have.Labels[managedBy]) {
			continue
		}
		// A copy: the answer is written into it, and the definitions are those of all clusters.
		if err := c.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object.DeepCopy()), manager,
			client.ForceOwnership); err != nil {
			return fmt.Errorf("apply %s %s: %w", object.GetKind(), client.ObjectKeyFromObject(object), err)
		}
	}
	return nil
}

// others tells whether an object that is there belongs to somebody else, by its label. flotilla join sets none on
// rights.
func others(kind, label string) bool {
	return label == helm || kind == "CustomResourceDefinition" && label != ours
}

// Uninstall is documented by capi.Cluster.
func (c *cluster) Uninstall(ctx context.Context) error {
	m, err := c.manifests()
	if err != nil {
		return err
	}
	in := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: topology.SystemNamespace, Name: name}
	}
	objects := []client.Object{m.deployment}
	for _, object := range m.objects {
		objects = append(objects, object)
	}
	objects = append(
		objects,
		&corev1.Secret{ObjectMeta: in(topology.JoinSecret)},
		&corev1.Secret{ObjectMeta: in(topology.CredentialSecret)},
		&corev1.Secret{
			ObjectMeta: in(service + "-webhook"),
		},
		&admissionregistrationv1.MutatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: admission.ConfigurationName},
		},
		&admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: deletion.Configuration},
		},
		&admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: guard.Configuration},
		},
	)
	for i, object := range objects {
		err := c.client.Get(ctx, client.ObjectKeyFromObject(object), object)
		if err == nil && object.GetLabels()[managedBy] == helm {
			if i == 0 {
				return nil // a person installed the agent, and removes it
			}
			continue
		}
		if err == nil {
			err = c.client.Delete(ctx, object, client.PropagationPolicy(metav1.DeletePropagationBackground))
		}
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("remove %T %s: %w", object, client.ObjectKeyFromObject(object), err)
		}
	}
	return nil
}

// SetZones is documented by capi.Cluster.
func (c *cluster) SetZones(ctx context.Context, zones map[string]string) (int, error) {
	nodes := &corev1.NodeList{}
	without, err := metav1.LabelSelectorAsSelector(
		&metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: corev1.LabelTopologyZone, Operator: metav1.LabelSelectorOpDoesNotExist},
			},
		},
	)
	if err != nil {
		return 0, fmt.Errorf("select nodes without a zone: %w", err)
	}
	if err := c.client.List(ctx, nodes, client.MatchingLabelsSelector{Selector: without}); err != nil {
		return 0, fmt.Errorf("list nodes without a zone: %w", err)
	}
	given := 0
	for i := range nodes.Items {
		node := &nodes.Items[i]
		zone := zones[node.Name]
		waits := slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == uninitialized })
		if zone == "" || waits || len(validation.IsValidLabelValue(zone)) > 0 {
			continue
		}
		base := node.DeepCopy()
		metav1.SetMetaDataLabel(&node.ObjectMeta, corev1.LabelTopologyZone, zone)
		if err := c.client.Patch(ctx, node, client.MergeFrom(base), manager); apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			return given, fmt.Errorf("give Node %s the zone %s: %w", node.Name, zone, err)
		}
		given++
	}
	return given, nil
}
