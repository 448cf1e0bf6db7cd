package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
)

// fieldManager owns what this package applies.
const fieldManager = "flotilla-fleet"

// applyAll applies the objects, all of one cluster-scoped resource.
func (c *Cluster) applyAll(ctx context.Context, resource schema.GroupVersionResource,
	objects []*unstructured.Unstructured) error {
	client, err := dynamic.NewForConfig(c.admin)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", c.Name, err)
	}
	for _, object := range objects {
		if err := applyObject(ctx, client.Resource(resource), object); err != nil {
			return fmt.Errorf("apply %s %s to %s: %w", object.GetKind(), object.GetName(), c.Name, err)
		}
	}
	return nil
}

// applyObject applies the object. It tries for up to 4 min while the kind is not served yet, and while the API server
// says that it did not get the request done in time: on a busy machine it takes half a minute and more to check the
// rules of a large definition. To apply again what was applied after all changes nothing.
func applyObject(ctx context.Context, client dynamic.ResourceInterface, object *unstructured.Unstructured) error {
	var last error
	err := poll(ctx, 4*time.Minute, func(ctx context.Context) (bool, error) {
		_, last = client.Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
		if apierrors.IsNotFound(last) || meta.IsNoMatchError(last) || apierrors.IsTimeout(last) ||
			apierrors.IsServerTimeout(last) || apierrors.IsTooManyRequests(last) {
			return false, nil
		}
		return true, last
	})
	if last != nil {
		return last
	}
	return err
}

// readObjects reads every object of the *.yaml files in dir.
func readObjects(files fs.FS, dir string) ([]*unstructured.Unstructured, error) {
	names, err := fs.Glob(files, path.Join(dir, "*.yaml"))
	if err != nil {
		return nil, fmt.Errorf("list manifests in %s: %w", dir, err)
	}
	var objects []*unstructured.Unstructured
	for _, name := range names {
		data, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, fmt.Errorf("read manifest %s: %w", name, err)
		}
		decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
		for {
			object := &unstructured.Unstructured{}
			err := decoder.Decode(object)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, fmt.Errorf("read manifest %s: %w", name, err)
			}
			if len(object.Object) > 0 {
				objects = append(objects, object)
			}
		}
	}
	return objects, nil
}

// poll asks again and again whether something is so, 50 ms apart, until it is, an error, or the limit.
func poll(ctx context.Context, limit time.Duration, done wait.ConditionWithContextFunc) error {
	return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, limit, true, done)
}
