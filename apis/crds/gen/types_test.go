package main

import (
	"reflect"
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
	got := podTemplate()
	labels := below(below(got)["metadata"].(schema))["labels"].(schema)
	if labels["maxProperties"] != int64(maxLabels) || labels["additionalProperties"].(schema)["maxLength"] != int64(maxLabelValue) {
		t.Errorf("the labels lost their bounds: %v", labels)
	}
	for _, declared := range []schema{got, labels, below(got)["metadata"].(schema), below(got)["spec"].(schema)} {
		if declared["nullable"] != nil {
			t.Errorf("%v takes null, which rules do not", declared["description"])
		}
	}
	for i := range reflect.TypeFor[corev1.PodSpec]().NumField() {
		name, _, _ := strings.Cut(reflect.TypeFor[corev1.PodSpec]().Field(i).Tag.Get("json"), ",")
		if below(below(got)["spec"].(schema))[name] == nil {
			t.Errorf("the spec of pods lacks %s", name)
		}
	}
}

// TestWrite reads what it wrote.
func TestWrite(t *testing.T) {
	crd := func() map[string]any { return map[string]any{"schema": podTemplate()} }
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
