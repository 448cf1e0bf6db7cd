package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/openapi"
	"k8s.io/utils/clock"
)

// askAgain is when an API server that could not resize pods is asked again: clusters are upgraded under a running
// agent.
const askAgain = 10 * time.Minute

// resizes knows whether the API server has pods/resize, which it has by default since Kubernetes 1.33. It asks once.
type resizes struct {
	discovery discovery.ServerResourcesInterface
	clock     clock.PassiveClock

	mu    sync.Mutex
	known bool
	asked time.Time
}

// NoResize returns a function that reports whether the API server cannot resize running pods.
func NoResize(env *Env) (func(context.Context) (bool, error), error) {
	asks, err := discovery.NewDiscoveryClientForConfigAndClient(env.Manager.GetConfig(), env.Manager.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("set up discovery: %w", err)
	}
	return (&resizes{discovery: asks, clock: env.Clock}).missing, nil
}

func (r *resizes) missing(context.Context) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known {
		return false, nil
	}
	if !r.asked.IsZero() && r.clock.Since(r.asked) < askAgain {
		return true, nil
	}
	list, err := r.discovery.ServerResourcesForGroupVersion("v1")
	if err != nil {
		return false, fmt.Errorf("ask whether pods can be resized: %w", err)
	}
	r.known = slices.ContainsFunc(list.APIResources, func(a metav1.APIResource) bool { return a.Name == "pods/resize" })
	r.asked = r.clock.Now()
	return !r.known, nil
}

// specField knows whether the definition of a kind has a field of spec. It asks only when it is asked, and again after
// askAgain, because definitions are upgraded under a running agent.
type specField struct {
	schemas openapi.Client
	kind    schema.GroupVersionKind
	name    string
	clock   clock.PassiveClock

	mu    sync.Mutex
	lacks bool
	asked time.Time
}

// LacksSpecField returns a function that reports whether the definition of the kind, which the API server has, lacks a
// field of spec. The API server drops what a definition lacks.
func LacksSpecField(env *Env, kind schema.GroupVersionKind, name string) (func(context.Context) (bool, error), error) {
	asks, err := discovery.NewDiscoveryClientForConfigAndClient(env.Manager.GetConfig(), env.Manager.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("set up discovery: %w", err)
	}
	return (&specField{schemas: asks.OpenAPIV3(), kind: kind, name: name, clock: env.Clock}).missing, nil
}

func (f *specField) missing(context.Context) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.asked.IsZero() && f.clock.Since(f.asked) < askAgain {
		return f.lacks, nil
	}
	lacks, err := f.ask()
	if err != nil {
		return false, fmt.Errorf("ask whether %s has spec.%s: %w", f.kind.Kind, f.name, err)
	}
	f.lacks, f.asked = lacks, f.clock.Now()
	return lacks, nil
}

func (f *specField) ask() (bool, error) {
	paths, err := f.schemas.Paths()
	if err != nil {
		return false, err
	}
	group := "apis/" + f.kind.GroupVersion().String()
	if paths[group] == nil {
		return false, fmt.Errorf("the API server describes no %s", group)
	}
	data, err := paths[group].Schema("application/json")
	if err != nil {
		return false, err
	}
	return lacksSpecField(data, f.kind, f.name)
}

// lacksSpecField reads the description of a group's kinds in OpenAPI v3.
func lacksSpecField(data []byte, kind schema.GroupVersionKind, name string) (bool, error) {
	var described struct {
		Components struct {
			Schemas map[string]struct {
				Kinds      []schema.GroupVersionKind `json:"x-kubernetes-group-version-kind"`
				Properties struct {
					Spec struct {
						Properties map[string]json.RawMessage `json:"properties"`
					} `json:"spec"`
				} `json:"properties"`
			} `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(data, &described); err != nil {
		return false, err
	}
	for _, object := range described.Components.Schemas {
		if fields := object.Properties.Spec.Properties; slices.Contains(object.Kinds, kind) && len(fields) > 0 {
			return fields[name] == nil, nil
		}
	}
	return false, fmt.Errorf("the API server describes no spec of %s", kind.Kind)
}
