package agent

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/flotilla-dev/flotilla/apis/crds"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

const (
	// managedBy is the label that says who made an object; ours and helm are its values.
	managedBy, ours, helm = "app.kubernetes.io/managed-by", "flotilla-capi", "Helm"
	// installed is an annotation of the agent's Deployment: what was applied, so that it is applied once.
	installed = "topology.flotilla.dev/installed"
	// service is the agent's, which converts older versions of objects.
	service = "flotilla-agent"
)

// Manifests are the agent's objects.
type Manifests struct {
	// definitions and objects are applied in this order, the deployment last: when it is there, all is.
	definitions, objects []*unstructured.Unstructured
	deployment           *unstructured.Unstructured
	// hash names all of them.
	hash string
}

// Read reads the agent's objects from a file of YAML, as helm template prints it, with one Deployment.
func Read(file string, of *Definitions) (*Manifests, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the agent's objects: %w", err)
	}
	m := &Manifests{definitions: of.objects}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), len(data)+1)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("read the agent's objects from %s: %w", file, err)
		}
		if len(object.Object) == 0 {
			continue
		}
		labels := object.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels[managedBy] = ours
		object.SetLabels(labels)
		if object.GetKind() != "Deployment" {
			m.objects = append(m.objects, object)
			continue
		}
		if m.deployment != nil {
			return nil, fmt.Errorf(
				"%s has the Deployments %s and %s; the agent is one: render the chart flotilla-agent alone",
				file,
				m.deployment.GetName(),
				object.GetName(),
			)
		}
		m.deployment = object
	}
	if m.deployment == nil || m.deployment.GetNamespace() != topology.SystemNamespace {
		return nil, fmt.Errorf(
			"%s has no Deployment in the namespace %s: give it what helm template flotilla-agent charts/flotilla-agent "+
				"--namespace %s prints",
			file,
			topology.SystemNamespace,
			topology.SystemNamespace,
		)
	}
	m.mark(data, of.sum)
	return m, nil
}

// Definitions are the CustomResourceDefinitions, converted by the agent. To parse them takes a good part of a second,
// so a program does it once.
type Definitions struct {
	objects []*unstructured.Unstructured
	// sum is a hash of them.
	sum []byte
}

// ReadDefinitions returns the definitions that the program was built with.
func ReadDefinitions() (*Definitions, error) {
	all, err := crds.AllWithConversion(admissionregistrationv1.WebhookClientConfig{
		Service: &admissionregistrationv1.ServiceReference{Namespace: topology.SystemNamespace, Name: service},
	})
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	for _, crd := range all {
		labels := crd.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels[managedBy] = ours
		crd.SetLabels(labels)
		text, err := crd.MarshalJSON()
		if err != nil {
			return nil, fmt.Errorf("read CustomResourceDefinition %s: %w", crd.GetName(), err)
		}
		sum.Write(text)
	}
	return &Definitions{all, sum.Sum(nil)}, nil
}

// mark notes on the Deployment what it goes with.
func (m *Manifests) mark(data, definitions []byte) {
	const enough = 16 // bytes of the hash: no two versions share them
	sum := sha256.Sum256(slices.Concat(data, definitions))
	m.hash = hex.EncodeToString(sum[:enough])
	annotations := m.deployment.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[installed] = m.hash
	m.deployment.SetAnnotations(annotations)
}
