package main

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

type inlined struct {
	Inner string `json:"inner"`
}

type tree struct {
	inlined  `json:",inline"`
	Number   int32             `json:"number"`
	Texts    map[string]string `json:"texts,omitempty"`
	Branches []*tree           `json:"branches"`
	NotJSON  string            `json:"-"`
}

func TestTypesOf(t *testing.T) {
	text := schema{"type": "string", "nullable": true}
	open := object(nil)
	open["nullable"] = true
	want := object(map[string]any{
		"inner":    text,
		"number":   schema{"type": "integer", "format": "int32", "nullable": true},
		"texts":    schema{"type": "object", "additionalProperties": text, "nullable": true},
		"branches": schema{"type": "array", "x-kubernetes-list-type": "atomic", "items": open, "nullable": true},
	})
	want["nullable"] = true
	if got := typesOf[tree](); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// TestAddTypes keeps what a declaration says, and adds what it does not.
func TestAddTypes(t *testing.T) {
	claims := claimTemplates()
	claim := claims["items"].(schema)
	name := below(below(claim)["metadata"].(schema))["name"].(schema)
	if name["maxLength"] != int64(maxName) {
		t.Errorf("the name of a claim template lost its bound: %v", name)
	}
	for _, declared := range []schema{claims, claim, below(claim)["metadata"].(schema), name} {
		if declared["nullable"] != nil {
			t.Errorf("%v takes null, which rules do not", declared["description"])
		}
	}
	spec := reflect.TypeFor[corev1.PersistentVolumeClaimSpec]()
	for i := range spec.NumField() {
		field, _, _ := strings.Cut(spec.Field(i).Tag.Get("json"), ",")
		if below(below(claim)["spec"].(schema))[field] == nil {
			t.Errorf("the spec of claims lacks %s", field)
		}
	}
}

// TestPodTemplateDeclaresWhatRulesRead bounds the size of definitions: everything else of a pod has no schema.
func TestPodTemplateDeclaresWhatRulesRead(t *testing.T) {
	template := servingPods()
	for node, want := range map[string][]string{
		"metadata": {"annotations", "labels"},
		"spec":     {"activeDeadlineSeconds", "containers", "readinessGates", "restartPolicy"},
	} {
		part := below(template)[node].(schema)
		if got := slices.Sorted(maps.Keys(below(part))); !slices.Equal(got, want) ||
			part["x-kubernetes-preserve-unknown-fields"] != true {
			t.Errorf("%s declares %q, want %q, and the rest kept", node, got, want)
		}
	}
}

// TestWrite reads what it wrote.
func TestWrite(t *testing.T) {
	crd := func() map[string]any {
		return map[string]any{"schema": addTypes(servingPods(), typesOf[corev1.PodTemplateSpec]())}
	}
	plain, err := yaml.Marshal(crd())
	if err != nil {
		t.Fatal(err)
	}
	given := crd()
	short, err := write(given, []schema{given["schema"].(schema)})
	if err != nil {
		t.Fatal(err)
	}
	var want, got any
	for data, into := range map[*[]byte]*any{&plain: &want, &short: &got} {
		if err := yaml.Unmarshal(*data, into); err != nil {
			t.Fatal(err)
		}
	}
	if !reflect.DeepEqual(got, want) || len(short) > len(plain)*2/3 {
		t.Errorf("%d bytes of %d, or not the same any more", len(short), len(plain))
	}
}
