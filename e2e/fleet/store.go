package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
)

// storedDefinitions is where an API server keeps CustomResourceDefinitions in etcd.
const storedDefinitions = "/registry/apiextensions.k8s.io/customresourcedefinitions/"

// store puts a CustomResourceDefinition that the API server does not have into etcd, as the API server itself leaves
// it: accepted and established. By its API that takes seconds of CPU for each large definition, because all of its
// rules are checked three times on the way. The definitions are the same in every cluster of every fleet, and apis/crds
// has them checked by an API server.
func (c *Cluster) store(ctx context.Context, object *unstructured.Unstructured) error {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, crd); err != nil {
		return fmt.Errorf("read CustomResourceDefinition %s: %w", object.GetName(), err)
	}
	now := metav1.NewTime(time.Now())
	crd.UID, crd.CreationTimestamp, crd.Generation = uuid.NewUUID(), now, 1
	crd.Status = apiextensionsv1.CustomResourceDefinitionStatus{AcceptedNames: crd.Spec.Names}
	crd.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{
		{Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionTrue, LastTransitionTime: now,
			Reason: "NoConflicts", Message: "no conflicts found"},
		{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue, LastTransitionTime: now,
			Reason: "InitialNamesAccepted", Message: "the initial names have been accepted"},
	}
	for _, version := range crd.Spec.Versions {
		if version.Storage {
			crd.Status.StoredVersions = append(crd.Status.StoredVersions, version.Name)
		}
	}
	value, err := json.Marshal(crd)
	if err != nil {
		return fmt.Errorf("write CustomResourceDefinition %s: %w", crd.Name, err)
	}
	if err := c.put(ctx, storedDefinitions+crd.Name, value); err != nil {
		return fmt.Errorf("store CustomResourceDefinition %s in etcd of %s: %w", crd.Name, c.Name, err)
	}
	return nil
}

// put writes a key of etcd by its gateway, which takes keys and values in base64.
func (c *Cluster) put(ctx context.Context, key string, value []byte) error {
	body, err := json.Marshal(struct {
		Key   []byte `json:"key"`
		Value []byte `json:"value"`
	}{[]byte(key), value})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost,
		fmt.Sprintf("http://%s:%d/v3/kv/put", loopback, c.ports.Etcd), bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(response.Body, 500))
		return fmt.Errorf("etcd answers %s: %s", response.Status, said)
	}
	return nil
}
