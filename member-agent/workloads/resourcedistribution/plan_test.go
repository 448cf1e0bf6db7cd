package resourcedistribution

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// targets reads "all", "label" (tier=web), "+name" (included) and "-name" (excluded).
func targets(words ...string) (out v1beta1.ResourceDistributionTargets) {
	for _, word := range words {
		of := v1beta1.ResourceDistributionNamespace{Name: word[1:]}
		switch {
		case word == "all":
			out.AllNamespaces = true
		case word == "label":
			out.NamespaceSelector.MatchLabels = map[string]string{"tier": "web"}
		case word[0] == '+':
			out.IncludedNamespaces.List = append(out.IncludedNamespaces.List, of)
		case word[0] == '-':
			out.ExcludedNamespaces.List = append(out.ExcludedNamespaces.List, of)
		}
	}
	return out
}

// world has the namespaces a, b (tier=web), c (being deleted) and those of the system.
func world() []Namespace {
	return []Namespace{{Name: "a"}, {Name: "b", Labels: map[string]string{"tier": "web"}}, {Name: "c", Deleting: true},
		{Name: metav1.NamespaceSystem, Labels: map[string]string{"tier": "web"}}, {Name: metav1.NamespacePublic}}
}

func TestNamespaces(t *testing.T) {
	for _, tt := range []struct {
		name             string
		targets          []string
		desired, missing string
	}{
		{"nothing is selected", nil, "", ""},
		{"all, without those of the system", []string{"all"}, "a b", ""},
		{"by label", []string{"label"}, "b", ""},
		{"by name", []string{"+a"}, "a", ""},
		{"together", []string{"label", "+a"}, "a b", ""},
		{"excluded", []string{"all", "-a"}, "b", ""},
		{"excluded beats included", []string{"+a", "-a"}, "", ""},
		{"a namespace of the system by name", []string{"+kube-system", "+kube-public", "+a"}, "a", ""},
		{"one that does not exist", []string{"+a", "+x"}, "a x", "x"},
		{"one that does not exist is excluded", []string{"+x", "-x"}, "", ""},
		{"one that is being deleted", []string{"+c", "+a"}, "a", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := &v1beta1.ResourceDistribution{Spec: v1beta1.ResourceDistributionSpec{Targets: targets(tt.targets...)}}
			plan, err := Compute(Facts{Distribution: d, Name: "s", Namespaces: world()})
			if err != nil {
				t.Fatal(err)
			}
			got := []string{strings.Join(plan.Desired, " "), strings.Join(plan.Missing, " ")}
			if diff := cmp.Diff([]string{tt.desired, tt.missing}, got); diff != "" {
				t.Errorf("desired and missing, -want +got:\n%s", diff)
			}
		})
	}
}

func TestSelectorThatIsNotValid(t *testing.T) {
	d := &v1beta1.ResourceDistribution{}
	d.Spec.Targets.NamespaceSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}
	if _, err := Compute(Facts{Distribution: d}); err == nil || !strings.Contains(err.Error(), "namespaceSelector") {
		t.Errorf("error %v", err)
	}
}

func TestPlan(t *testing.T) {
	of := func(namespace string, change func(*Copy)) Copy {
		c := Copy{Namespace: namespace, Name: "s", UID: types.UID(namespace), Version: "1", Hash: "new"}
		if change != nil {
			change(&c)
		}
		return c
	}
	compared := map[string]string{"a": "1", "b": "1"}
	for _, tt := range []struct {
		name      string
		targets   []string
		copies    []Copy
		conflicts map[string]bool
		want      Plan
	}{
		{name: "no copies", targets: []string{"all"}, want: Plan{Create: []string{"a", "b"}}},
		{name: "all is well", targets: []string{"all"}, copies: []Copy{of("a", nil), of("b", nil)}},
		{name: "a copy of an earlier resource", targets: []string{"+a"},
			copies: []Copy{of("a", func(c *Copy) { c.Hash = "old" })},
			want:   Plan{Compare: []Copy{of("a", func(c *Copy) { c.Hash = "old" })}}},
		{name: "a copy that changed", targets: []string{"+a"}, copies: []Copy{of("a", func(c *Copy) { c.Version = "2" })},
			want: Plan{Compare: []Copy{of("a", func(c *Copy) { c.Version = "2" })}}},
		{name: "a namespace that is selected no more", targets: []string{"+b"}, copies: []Copy{of("a", nil), of("b", nil)},
			want: Plan{Delete: []Copy{of("a", nil)}}},
		{name: "a copy of another name", targets: []string{"+a"},
			copies: []Copy{of("a", func(c *Copy) { c.Name = "before" })},
			want:   Plan{Create: []string{"a"}, Delete: []Copy{of("a", func(c *Copy) { c.Name = "before" })}}},
		{name: "a copy that is being deleted", targets: []string{"+a"},
			copies: []Copy{of("a", func(c *Copy) { c.Deleting = true })}, want: Plan{Going: []string{"a"}}},
		{name: "a copy that goes is not deleted again", copies: []Copy{of("a", func(c *Copy) { c.Deleting = true })}},
		{name: "an object of others", targets: []string{"all"}, copies: []Copy{of("b", nil)},
			conflicts: map[string]bool{"a": true}, want: Plan{Conflicts: []string{"a"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := &v1beta1.ResourceDistribution{Spec: v1beta1.ResourceDistributionSpec{Targets: targets(tt.targets...)}}
			plan, err := Compute(Facts{Distribution: d, Name: "s", Hash: "new", Namespaces: world(), Copies: tt.copies,
				Compared: compared, Conflicts: tt.conflicts})
			if err != nil {
				t.Fatal(err)
			}
			plan.Desired = nil // TestNamespaces has them
			if diff := cmp.Diff(tt.want, plan); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestPlanProperties holds over random worlds: each desired namespace has one answer, what is carried out leads to
// rest in one step, and the order of what is listed does not matter.
func TestPlanProperties(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	words := []string{"all", "label", "+a", "+b", "+x", "-a", "-b", "+kube-system"}
	for range 20_000 {
		var some []string
		for _, word := range words {
			if random.IntN(3) == 0 {
				some = append(some, word)
			}
		}
		d := &v1beta1.ResourceDistribution{Spec: v1beta1.ResourceDistributionSpec{Targets: targets(some...)}}
		f := Facts{Distribution: d, Name: "s", Hash: "new", Namespaces: world(), Compared: map[string]string{},
			Conflicts: map[string]bool{"a": random.IntN(4) == 0}}
		for _, namespace := range []string{"a", "b", "x"} {
			if random.IntN(2) == 0 && namespace != "x" {
				f.Copies = append(f.Copies, Copy{Namespace: namespace, Name: "s", Version: "1",
					Hash: []string{"new", "old"}[random.IntN(2)], Deleting: random.IntN(5) == 0})
			}
		}
		plan, err := Compute(f)
		if err != nil {
			t.Fatal(err)
		}
		mirrored := f
		mirrored.Namespaces, mirrored.Copies = slices.Clone(f.Namespaces), slices.Clone(f.Copies)
		slices.Reverse(mirrored.Namespaces)
		slices.Reverse(mirrored.Copies)
		again, _ := Compute(mirrored)
		slices.SortFunc(again.Delete, func(a, b Copy) int { return strings.Compare(a.Namespace, b.Namespace) })
		if diff := cmp.Diff(plan, again); diff != "" {
			t.Fatalf("%v: another order of the facts: %s", some, diff)
		}
		after := f
		after.Copies, after.Compared = nil, map[string]string{}
		for _, namespace := range plan.Desired {
			if !slices.Contains(plan.Missing, namespace) && !slices.Contains(plan.Conflicts, namespace) {
				after.Copies = append(after.Copies, Copy{Namespace: namespace, Name: "s", Version: "2", Hash: "new"})
				after.Compared[namespace] = "2"
			}
		}
		rest, _ := Compute(after)
		if len(rest.Create)+len(rest.Compare)+len(rest.Delete)+len(rest.Going) > 0 {
			t.Fatalf("%v: after all of %+v is carried out, %+v is left", some, plan, rest)
		}
	}
}

func secret(fields string) []byte {
	const metadata = `{"name":"s","labels":{"app":"web"},"annotations":{"a":"1"}}`
	return []byte(`{"apiVersion":"v1","kind":"Secret","metadata":` + metadata + fields + `}`)
}

func TestParse(t *testing.T) {
	for _, tt := range []struct{ name, raw, says string }{
		{"a ConfigMap", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}`, ""},
		{"a Secret", string(secret(`,"stringData":{"a":"b"}`)), ""},
		{"another kind", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"c"}}`, "spec.resource is a Pod of v1"},
		{"another group", `{"apiVersion":"x/v1","kind":"Secret","metadata":{"name":"c"}}`,
			"spec.resource is a Secret of x/v1"},
		{"no name", `{"apiVersion":"v1","kind":"ConfigMap"}`, "metadata.name is empty"},
		{"no object", `[]`, "spec.resource is no object"},
		{"stringData that is none", string(secret(`,"stringData":{"a":1}`)), "spec.resource.stringData"},
		{"data that is none", string(secret(`,"stringData":{"a":"1"},"data":[]`)), "spec.resource.data"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parse([]byte(tt.raw))
			if tt.says == "" && err != nil || tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)) {
				t.Errorf("error %v, want one that says %q", err, tt.says)
			}
		})
	}
}

// TestBrought holds what is written onto a copy, and that nothing is written onto one that is as the resource.
func TestBrought(t *testing.T) {
	d := &v1beta1.ResourceDistribution{ObjectMeta: metav1.ObjectMeta{Name: "d", UID: "1"}}
	r, err := parse(secret(`,"stringData":{"key":"value"}`))
	if err != nil {
		t.Fatal(err)
	}
	stored := func(change func(*unstructured.Unstructured)) *unstructured.Unstructured {
		u := r.copyFor(d, "shop")
		u.SetResourceVersion("7")
		change(u)
		return u
	}
	field := func(value any, path ...string) func(*unstructured.Unstructured) {
		return func(u *unstructured.Unstructured) {
			if err := unstructured.SetNestedField(u.Object, value, path...); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, tt := range []struct {
		name   string
		change func(*unstructured.Unstructured)
		same   bool
	}{
		{"as it was made", func(*unstructured.Unstructured) {}, true},
		{"empty fields", field(false, "immutable"), true},
		{"labels of others", field("x", "metadata", "labels", "other"), true},
		{"finalizers of others", func(u *unstructured.Unstructured) { u.SetFinalizers([]string{"a/b"}) }, true},
		{"another value", field("eA==", "data", "key"), false},
		{"a key more", field("eA==", "data", "more"), false},
		{"another type", field("kubernetes.io/tls", "type"), false},
		{"a label of the resource is lost", func(u *unstructured.Unstructured) { u.SetLabels(nil) }, false},
		{"an annotation of the resource is other", field("2", "metadata", "annotations", "a"), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			have := stored(tt.change)
			got := r.brought(d, have)
			if (got == nil) != tt.same {
				t.Fatalf("%v is written onto %v", got, have)
			}
			if got == nil {
				return
			}
			if got.GetResourceVersion() != "7" {
				t.Errorf("the write does not name the version that was compared: %v", got)
			}
			if left := r.brought(d, got); left != nil {
				t.Errorf("after the write %v is written again: %s", left, cmp.Diff(got.Object, left.Object))
			}
		})
	}
}
