package normal_test

import (
	"reflect"
	"testing"

	"github.com/flotilla-dev/flotilla/member-agent/kernel/history/normal"
)

func TestFieldsForgetTheSpelling(t *testing.T) {
	container := func(more map[string]any) map[string]any {
		out := map[string]any{"name": "main", "image": "nginx:1"}
		for key, value := range more {
			out[key] = value
		}
		return map[string]any{"spec": map[string]any{"containers": []any{out}}}
	}
	plain, err := normal.Fields(container(nil))
	if err != nil {
		t.Fatal(err)
	}
	spelled, err := normal.Fields(container(map[string]any{"imagePullPolicy": "IfNotPresent", "command": nil}))
	if err != nil || !reflect.DeepEqual(plain, spelled) {
		t.Errorf("%v and %v differ, %v", plain, spelled, err)
	}
	other, err := normal.Fields(container(map[string]any{"imagePullPolicy": "Always"}))
	if err != nil || reflect.DeepEqual(plain, other) {
		t.Errorf("%v and %v are the same, %v", plain, other, err)
	}
}
