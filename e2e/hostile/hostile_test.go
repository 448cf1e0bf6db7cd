package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/flotilla-dev/flotilla/e2e/hostile/objects"
	tested "github.com/flotilla-dev/flotilla/e2e/kinds"
	"github.com/flotilla-dev/flotilla/hub/explain"
)

func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// TestHostile is the quick part: make hostile has the million.
func TestHostile(t *testing.T) {
	if err := inProcess(t.Context(), options{seed: 1, count: 2000, workers: 2, mostHeapMiB: 512}, io.Discard); err != nil {
		t.Fatal(err)
	}
}

// TestMet holds that hostile objects come far: a world that refused all at the door would prove nothing.
func TestMet(t *testing.T) {
	generator, err := objects.New(3)
	if err != nil {
		t.Fatal(err)
	}
	w, err := newWorld(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const count = 500
	for range count {
		if err := w.meet(t.Context(), generator.Next()); err != nil {
			t.Fatal(err)
		}
	}
	if w.taken < count/4 {
		t.Errorf("%d of %d objects came as far as a decision", w.taken, count)
	}
}

// TestMistypedTemplatesHarmNobody has templates meet the hub that an API server stores while nobody answers its
// webhook: they are decoded, their own workload is rejected with path and value, and the other workloads are decided
// about.
func TestMistypedTemplatesHarmNobody(t *testing.T) {
	w, err := newWorld(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	mistyped := map[string]string{
		`{"spec":{"containers":"x"}}`:                                       "spec.containers",
		`{"spec":{"containers":[5]}}`:                                       "spec.containers[0]",
		`{"spec":{"containers":[{"name":"a","env":{"A":"b"}}]}}`:            "spec.containers[0].env",
		`{"spec":{"containers":[{"resources":{"limits":{"cpu":"lots"}}}]}}`: "spec.containers[0].resources.limits[cpu]",
		`{"spec":{"nodeName":5}}`:                                           "spec.nodeName",
		`{"spec":5}`:                                                        "spec",
		`{"metadata":"x"}`:                                                  "metadata",
		`[]`:                                                                "",
	}
	key := w.workloads()
	for template, path := range mistyped {
		for i, kind := range tested.All() {
			for _, spec := range kind.Specs {
				at := strings.Join(append(slices.Clone(spec), "template"), ".")
				good := w.good[key[i].Kind]
				tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(good)
				if err != nil {
					t.Fatal(err)
				}
				tree["spec"].(map[string]any)["template"] = nested(t, strings.Split(at, ".")[1:], template)
				data, err := json.Marshal(tree)
				if err != nil {
					t.Fatal(err)
				}
				object, err := w.decode(data, "apps.kruise.io/v1beta1", key[i].Kind)
				if err != nil {
					t.Fatalf("%s at %s blinds whoever lists it: %v", template, at, err)
				}
				w.place(object)
				if err := w.stands.Put(object); err != nil {
					t.Fatal(err)
				}
				own, err := explain.Gather(t.Context(), w.stands, hubID, key[i])
				if err != nil {
					t.Fatal(err)
				}
				want := strings.TrimSuffix("spec."+at+"."+path, ".") + ": Invalid value"
				if text := fmt.Sprintf("%+v", explain.Plan(key[i], &own.Forecast)); !strings.Contains(text, want) {
					t.Errorf("%s at %s: its own workload is told\n%s\nwant %s", template, at, text, want)
				}
				other, err := explain.Gather(t.Context(), w.stands, hubID, key[(i+1)%len(key)])
				if err != nil || other.Forecast.Next == nil {
					t.Errorf("%s at %s: the other workload is not decided about: %v", template, at, err)
				}
				if err := w.stands.Put(good); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// nested returns JSON below some keys.
func nested(t *testing.T, keys []string, data string) any {
	t.Helper()
	var value any
	if err := json.Unmarshal([]byte(data), &value); err != nil {
		t.Fatal(err)
	}
	for i := range keys {
		value = map[string]any{keys[len(keys)-1-i]: value}
	}
	return value
}
