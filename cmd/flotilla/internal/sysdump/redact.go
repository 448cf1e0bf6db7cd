package sysdump

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// redacted stands in place of what is left out.
const redacted = "(left out)"

// longest is the length of an annotation that is kept: longer ones are whole objects.
const longest = 1024

// redact takes out of an object, wherever it stands in it, what may be secret: values of environment variables, the
// data of Secrets and ConfigMaps that an order carries, what a JSON patch puts there, requests and certificates, and
// annotations that hold whole objects. managedFields go too, for they are long. It changes the object.
func redact(o *unstructured.Unstructured) {
	o.SetManagedFields(nil)
	walk(o.Object)
}

func walk(value any) {
	switch v := value.(type) {
	case map[string]any:
		redactMap(v)
	case []any:
		for _, item := range v {
			walk(item)
		}
	}
}

func redactMap(m map[string]any) {
	if kind, _ := m["kind"].(string); kind == "Secret" || kind == "ConfigMap" {
		for _, key := range []string{"data", "stringData", "binaryData"} {
			hide(m, key)
		}
	}
	if kind, _ := m["kind"].(string); kind == "CertificateSigningRequest" {
		for _, key := range []string{"spec", "status"} {
			if part, ok := m[key].(map[string]any); ok {
				hide(part, "request")
				hide(part, "certificate")
			}
		}
	}
	path, patch := m["path"].(string)
	if _, op := m["op"].(string); patch && op &&
		(strings.Contains(path, "/env") || strings.Contains(strings.ToLower(path), "data")) {
		hide(m, "value")
	}
	for key, value := range m {
		switch {
		case key == "env":
			redactEnv(value)
		case key == "annotations":
			redactAnnotations(value)
		}
		walk(value)
	}
}

// hide replaces a value, where there is one.
func hide(m map[string]any, key string) {
	if _, ok := m[key]; ok {
		m[key] = redacted
	}
}

// redactEnv keeps the names of variables, and where they come from.
func redactEnv(value any) {
	switch v := value.(type) {
	case []any:
		for _, item := range v {
			if variable, ok := item.(map[string]any); ok {
				hide(variable, "value")
			}
		}
	case map[string]any:
		for name := range v {
			v[name] = redacted
		}
	}
}

func redactAnnotations(value any) {
	annotations, ok := value.(map[string]any)
	if !ok {
		return
	}
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	for name, text := range annotations {
		if s, ok := text.(string); ok && len(s) > longest {
			annotations[name] = fmt.Sprintf("%s: %d bytes", redacted, len(s))
		}
	}
}
