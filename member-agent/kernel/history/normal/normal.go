package normal

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// defaults names fields and the values that the API server gives them when they are absent. Numbers are float64, as
// decoded JSON has them.
type defaults map[string]any

var (
	empty = map[string]any{}

	podDefaults = defaults{
		"restartPolicy":                 "Always",
		"dnsPolicy":                     "ClusterFirst",
		"schedulerName":                 "default-scheduler",
		"securityContext":               empty,
		"terminationGracePeriodSeconds": 30.0,
		"enableServiceLinks":            true,
	}
	containerDefaults = defaults{
		"resources":                empty,
		"terminationMessagePath":   "/dev/termination-log",
		"terminationMessagePolicy": "File",
	}
	portDefaults  = defaults{"protocol": "TCP"}
	probeDefaults = defaults{
		"timeoutSeconds":   1.0,
		"periodSeconds":    10.0,
		"successThreshold": 1.0,
		"failureThreshold": 3.0,
	}
	httpGetDefaults  = defaults{"scheme": "HTTP", "path": "/"}
	grpcDefaults     = defaults{"service": ""}
	fieldRefDefaults = defaults{"apiVersion": "v1"}
	// 420 is 0644, the mode of files that volumes project.
	fileModeDefaults = defaults{"defaultMode": 420.0}
	hostPathDefaults = defaults{"type": ""}
)

// PatchDirective is the key with which a stored template says that it replaces what a workload has. It is no field of
// the template.
const PatchDirective = "$patch"

// Fields returns the canonical form of a template as decoded JSON: equal for templates that mean the same. It errs when
// the template cannot be encoded.
func Fields[T any](template T) (map[string]any, error) {
	fields, err := Object(template)
	if err != nil {
		return nil, fmt.Errorf("encode template: %w", err)
	}
	delete(fields, PatchDirective)
	normalise(fields)
	return fields, nil
}

// Object returns v as a decoded JSON object, in a copy.
func Object(v any) (map[string]any, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	fields := map[string]any{}
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, err
	}
	return fields, nil
}

// normalise removes null fields everywhere, and default values in every pod spec below v.
func normalise(v any) {
	switch v := v.(type) {
	case map[string]any:
		for key, field := range v {
			if field == nil {
				delete(v, key)
				continue
			}
			normalise(field)
		}
		if _, isPod := v["containers"].([]any); isPod {
			normalisePod(v)
		}
	case []any:
		for _, item := range v {
			normalise(item)
		}
	}
}

func normalisePod(spec map[string]any) {
	for _, list := range []string{"containers", "initContainers"} {
		for _, container := range objects(spec[list]) {
			normaliseContainer(container)
		}
	}
	for _, volume := range objects(spec["volumes"]) {
		normaliseVolume(volume)
	}
	// serviceAccount is the old name of serviceAccountName and is filled in beside it.
	if spec["serviceAccount"] == spec["serviceAccountName"] {
		delete(spec, "serviceAccount")
	}
	podDefaults.drop(spec)
}

func normaliseContainer(c map[string]any) {
	for _, port := range objects(c["ports"]) {
		portDefaults.drop(port)
	}
	for _, env := range objects(c["env"]) {
		fieldRefDefaults.drop(field(field(env, "valueFrom"), "fieldRef"))
	}
	for _, name := range []string{"livenessProbe", "readinessProbe", "startupProbe"} {
		probe := field(c, name)
		probeDefaults.drop(probe)
		httpGetDefaults.drop(field(probe, "httpGet"))
		grpcDefaults.drop(field(probe, "grpc"))
	}
	for _, hook := range []string{"postStart", "preStop"} {
		httpGetDefaults.drop(field(field(field(c, "lifecycle"), hook), "httpGet"))
	}
	if image, _ := c["image"].(string); c["imagePullPolicy"] == defaultPullPolicy(image) {
		delete(c, "imagePullPolicy")
	}
	containerDefaults.drop(c)
}

func normaliseVolume(v map[string]any) {
	for _, source := range []string{"secret", "configMap", "downwardAPI", "projected"} {
		fileModeDefaults.drop(field(v, source))
	}
	for _, item := range objects(field(v, "downwardAPI")["items"]) {
		fieldRefDefaults.drop(field(item, "fieldRef"))
	}
	hostPathDefaults.drop(field(v, "hostPath"))
}

// defaultPullPolicy is the pull policy of a container that names none.
func defaultPullPolicy(image string) string {
	if strings.Contains(image, "@") {
		return "IfNotPresent"
	}
	tag := image[strings.LastIndex(image, "/")+1:]
	if at := strings.Index(tag, ":"); at >= 0 && tag[at+1:] != "latest" {
		return "IfNotPresent"
	}
	return "Always"
}

// drop deletes the fields of m that have their default value. A nil m is left alone.
func (d defaults) drop(m map[string]any) {
	for key, value := range d {
		if have, ok := m[key]; ok && reflect.DeepEqual(have, value) {
			delete(m, key)
		}
	}
}

func field(m map[string]any, name string) map[string]any {
	child, _ := m[name].(map[string]any)
	return child
}

func objects(list any) []map[string]any {
	items, _ := list.([]any)
	var out []map[string]any
	for _, item := range items {
		if m, ok := item.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}
