package fleet

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"

	"github.com/flotilla-dev/flotilla/apis/protection"
	"github.com/flotilla-dev/flotilla/apis/warnings"
)

// InstallCRDs gives the cluster every CustomResourceDefinition in the *.yaml files at the top of files and returns when
// all of them are established and served. What the cluster has already is applied; what it does not have is stored as
// an API server leaves it, without asking it: ApplyCRDs asks. Those whose objects a webhook converts name
// WebhookAddress: only there can a program of ours serve a cluster of a fleet. While none does, requests for the
// version that is stored work, others fail.
func (c *Cluster) InstallCRDs(ctx context.Context, files fs.FS) error {
	return c.installCRDs(ctx, files, false)
}

// ApplyCRDs is InstallCRDs by the API alone, as a user does it: the API server checks every definition.
func (c *Cluster) ApplyCRDs(ctx context.Context, files fs.FS) error {
	return c.installCRDs(ctx, files, true)
}

// InstallProtection gives the cluster the policy for deletion protection, as the charts do.
func (c *Cluster) InstallProtection(ctx context.Context) error {
	objects, err := protection.Objects(AgentUser)
	if err != nil {
		return fmt.Errorf("install the deletion protection in %s: %w", c.Name, err)
	}
	return c.installPolicies(ctx, objects)
}

// InstallWarnings gives the cluster what its API server warns about, as the charts do.
func (c *Cluster) InstallWarnings(ctx context.Context, hub bool) error {
	objects, err := warnings.Member()
	if hub {
		objects, err = warnings.Hub(true)
	}
	if err != nil {
		return fmt.Errorf("install the warnings in %s: %w", c.Name, err)
	}
	return c.installPolicies(ctx, objects)
}

// installPolicies applies ValidatingAdmissionPolicies and their bindings.
func (c *Cluster) installPolicies(ctx context.Context, objects []*unstructured.Unstructured) error {
	group := admissionregistrationv1.SchemeGroupVersion
	for _, object := range objects {
		resource := group.WithResource("validatingadmissionpolicies")
		if object.GetKind() == "ValidatingAdmissionPolicyBinding" {
			resource = group.WithResource("validatingadmissionpolicybindings")
		}
		if err := c.applyAll(ctx, resource, []*unstructured.Unstructured{object}); err != nil {
			return fmt.Errorf("install %s: %w", object.GetName(), err)
		}
	}
	return nil
}

func (c *Cluster) installCRDs(ctx context.Context, files fs.FS, ask bool) error {
	objects, err := readObjects(files, ".")
	if err != nil {
		return fmt.Errorf("install CRDs in %s: %w", c.Name, err)
	}
	objects = slices.DeleteFunc(objects,
		func(o *unstructured.Unstructured) bool { return o.GetKind() != "CustomResourceDefinition" })
	var names []string
	for i, object := range objects {
		names = append(names, object.GetName())
		if objects[i], err = c.convertedHere(ctx, object); err != nil {
			return fmt.Errorf("install CRD %s in %s: %w", object.GetName(), c.Name, err)
		}
	}
	client, err := apiextensions.NewForConfig(c.admin)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", c.Name, err)
	}
	if !ask {
		if objects, err = c.storeNew(ctx, client, objects); err != nil {
			return fmt.Errorf("install CRDs: %w", err)
		}
	}
	if err := c.applyAll(ctx, apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions"),
		objects); err != nil {
		return fmt.Errorf("install CRDs: %w", err)
	}
	waitingFor := ""
	err = poll(ctx, 3*time.Minute, func(ctx context.Context) (bool, error) {
		for _, name := range names {
			crd, err := client.ApiextensionsV1().CustomResourceDefinitions().Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				waitingFor = err.Error()
				return false, nil
			}
			if waitingFor = notEstablished(crd); waitingFor == "" {
				waitingFor = notServed(client.Discovery(), crd)
			}
			if waitingFor != "" {
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("wait for CRDs in %s: %w: %s", c.Name, err, waitingFor)
	}
	return nil
}

// storeNew stores the definitions that the cluster does not have, and returns the others.
func (c *Cluster) storeNew(ctx context.Context, client apiextensions.Interface,
	objects []*unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	var others []*unstructured.Unstructured
	for _, object := range objects {
		_, err := client.ApiextensionsV1().CustomResourceDefinitions().Get(ctx, object.GetName(), metav1.GetOptions{})
		switch {
		case err == nil:
			others = append(others, object)
		case apierrors.IsNotFound(err):
			err = c.store(ctx, object)
		}
		if err != nil {
			return nil, err
		}
	}
	return others, nil
}

func notEstablished(crd *apiextensionsv1.CustomResourceDefinition) string {
	why := crd.Name + " is not established yet"
	for _, condition := range crd.Status.Conditions {
		switch {
		case condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue:
			why = ""
		case condition.Type == apiextensionsv1.NamesAccepted && condition.Status == apiextensionsv1.ConditionFalse,
			condition.Type == apiextensionsv1.NonStructuralSchema && condition.Status == apiextensionsv1.ConditionTrue:
			return crd.Name + ": " + condition.Message
		}
	}
	return why
}

// notServed tells what the API server does not name yet to those who ask what it has: they remember the answer.
func notServed(client discovery.ServerResourcesInterface, crd *apiextensionsv1.CustomResourceDefinition) string {
	for _, version := range crd.Spec.Versions {
		if !version.Served {
			continue
		}
		list, err := client.ServerResourcesForGroupVersion(crd.Spec.Group + "/" + version.Name)
		if err != nil {
			return fmt.Sprintf("%s is not served yet: %v", crd.Name, err)
		}
		if !slices.ContainsFunc(list.APIResources,
			func(r metav1.APIResource) bool { return r.Name == crd.Spec.Names.Plural }) {
			return crd.Name + " is not served yet"
		}
	}
	return ""
}
