package hub

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/flotilla-dev/flotilla/apis/crds"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// CheckCRDs returns an error that names the CustomResourceDefinitions which the API server does not serve, and says what to
// do; nil if it serves all.
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
		return fmt.Errorf("the API server %s does not serve the CustomResourceDefinitions %s; install them with \"kubectl apply --server-side -f apis/crds\" and start flotilla-hub again",
			cfg.Host, strings.Join(missing, ", "))
	}
	return nil
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
		_, err = client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{FieldManager: string(wire.ManagerInventory)})
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("ensure namespace %s: %w", name, err)
	}
	return nil
}
