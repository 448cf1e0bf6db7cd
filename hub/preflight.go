package hub

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/flotilla-dev/flotilla/apis/crds"
	"github.com/flotilla-dev/flotilla/hub/inventory/profiles"
	"github.com/flotilla-dev/flotilla/hub/store"
	"github.com/flotilla-dev/flotilla/hub/wire/karmada"
)

// CheckCRDs returns an error that names the CustomResourceDefinitions which the API server does not serve, and says
// what to do; nil if it serves all.
func CheckCRDs(cfg *rest.Config) error {
	client, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return fmt.Errorf("create a discovery client: %w", err)
	}
	all, err := crds.All()
	if err != nil {
		return err
	}
	var missing []string
	served := map[string]*metav1.APIResourceList{}
	for _, crd := range all {
		group, plural, version := names(crd)
		gv := group + "/" + version
		list, ok := served[gv]
		if !ok {
			list, err = client.ServerResourcesForGroupVersion(gv)
			if err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("ask the API server for %s: %w", gv, err)
			}
			served[gv] = list
		}
		if !has(list, plural) {
			missing = append(missing, crd.GetName())
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf(
			"the API server %s does not serve the CustomResourceDefinitions %s; install them with \"kubectl apply "+
				"--server-side -f apis/crds\" and start flotilla-hub again",
			cfg.Host,
			strings.Join(missing, ", "),
		)
	}
	return nil
}

// CheckInventory returns an error where the API server does not serve what an inventory reads, or the ClusterProfiles
// that are to be published in a namespace, empty for none.
func CheckInventory(cfg *rest.Config, inventory Inventory, clusterProfiles string) error {
	if clusterProfiles != "" {
		if missing, err := unserved(cfg, []schema.GroupVersionKind{profiles.Kind()}); err != nil {
			return err
		} else if len(missing) > 0 {
			return fmt.Errorf("--cluster-profiles=%s, and the API server %s does not serve %s; install that definition of SIG "+
				"Multicluster, or leave the flag out", clusterProfiles, cfg.Host, missing[0])
		}
	}
	switch inventory {
	case "", InventoryAgent:
		return nil
	case InventoryKarmada:
	default:
		return fmt.Errorf("--inventory %q is neither %s nor %s", inventory, InventoryAgent, InventoryKarmada)
	}
	kinds := append(karmada.PolicyKinds(), karmada.ClusterKind())
	if missing, err := unserved(cfg, kinds); err != nil {
		return err
	} else if len(missing) > 0 {
		return fmt.Errorf("--inventory=karmada, and the API server %s does not serve %s; give flotilla-hub the kubeconfig "+
			"of Karmada's API server, or take its members from agents of Flotilla with --inventory=agent",
			cfg.Host, strings.Join(missing, ", "))
	}
	return nil
}

// unserved returns the kinds that the API server does not serve, as "Kind.version.group".
func unserved(cfg *rest.Config, kinds []schema.GroupVersionKind) ([]string, error) {
	client, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("create a discovery client: %w", err)
	}
	var missing []string
	for _, kind := range kinds {
		list, err := client.ServerResourcesForGroupVersion(kind.GroupVersion().String())
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("ask the API server for %s: %w", kind.GroupVersion(), err)
		}
		if list == nil ||
			!slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Kind == kind.Kind }) {
			missing = append(missing, kind.Kind+"."+kind.Version+"."+kind.Group)
		}
	}
	return missing, nil
}

// names returns group, plural and storage version of a CustomResourceDefinition.
func names(crd *unstructured.Unstructured) (group, plural, version string) {
	group, _, _ = unstructured.NestedString(crd.Object, "spec", "group")
	plural, _, _ = unstructured.NestedString(crd.Object, "spec", "names", "plural")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, v := range versions {
		if m, ok := v.(map[string]any); ok && m["storage"] == true {
			version, _ = m["name"].(string)
		}
	}
	return group, plural, version
}

func has(list *metav1.APIResourceList, plural string) bool {
	if list == nil {
		return false
	}
	for i := range list.APIResources {
		if list.APIResources[i].Name == plural {
			return true
		}
	}
	return false
}

// EnsureNamespace creates the namespace of the hub's own objects if it is not there.
func EnsureNamespace(ctx context.Context, cfg *rest.Config, name string) error {
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("create a client: %w", err)
	}
	_, err = client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		_, err = client.CoreV1().
			Namespaces().
			Create(ctx, namespace, metav1.CreateOptions{FieldManager: string(store.ManagerInventory)})
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("ensure namespace %s: %w", name, err)
	}
	return nil
}
