package inject_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/inject"
)

func TestConflict(t *testing.T) {
	const base = "{selector: {matchLabels: {app: web}}, containers: [{name: log}], volumes: [{name: v, emptyDir: {}}]}"
	for _, tt := range []struct {
		name, spec string
		base       string
		want       string
	}{
		{"the same container", "{selector: {matchLabels: {tier: a}}, containers: [{name: log}]}", "",
			"container log is also in SidecarSet old"},
		{"an init container", "{selector: {matchLabels: {app: web}}, initContainers: [{name: log}]}", "", "container log"},
		{"other pods", "{selector: {matchLabels: {app: db}}, containers: [{name: log}]}", "", ""},
		{"other values", "{selector: {matchExpressions: [{key: app, operator: In, values: [a, b]}]}, " +
			"containers: [{name: log}]}", "", ""},
		{"one value is the same", "{selector: {matchExpressions: [{key: app, operator: In, values: [a, web]}]}, " +
			"containers: [{name: log}]}", "", "container log"},
		{"another name", "{selector: {matchLabels: {app: web}}, containers: [{name: log2}]}", "", ""},
		{"a canary", "{selector: {matchLabels: {app: web}}, containers: [{name: log}]}", "old", ""},
		{"a canary of another", "{selector: {matchLabels: {app: web}}, containers: [{name: log}]}", "x", "container log"},
		{"the same volume", "{selector: {matchLabels: {app: web}}, volumes: [{name: v, emptyDir: {}}]}", "", ""},
		{"another volume", "{selector: {matchLabels: {app: web}}, volumes: [{name: v, hostPath: {path: /}}]}", "",
			"another volume v"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			make := func(name, spec string, age int64) *v1beta1.SidecarSet {
				return &v1beta1.SidecarSet{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name),
					CreationTimestamp: metav1.NewTime(time.Unix(1000-age, 0))}, Spec: *parse[v1beta1.SidecarSetSpec](t, spec)}
			}
			old, set := make("old", base, 10), make("new", tt.spec, 0)
			if tt.base != "" {
				set.Annotations = map[string]string{v1beta1.AnnotationSidecarSetCanary: "true",
					v1beta1.AnnotationSidecarSetBase: tt.base}
			}
			all := []*v1beta1.SidecarSet{set, old}
			got := inject.Conflict(set, all)
			if (got == "") != (tt.want == "") || !strings.HasPrefix(got, tt.want) {
				t.Errorf("%q, want %q", got, tt.want)
			}
			if got := inject.Conflict(old, all); got != "" {
				t.Errorf("the older one: %s", got)
			}
		})
	}
}

// aged returns a SidecarSet that is this many seconds older than others.
func aged(t *testing.T, name, spec string, age int64, canaryOf string) *v1beta1.SidecarSet {
	t.Helper()
	set := &v1beta1.SidecarSet{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name),
		CreationTimestamp: metav1.NewTime(time.Unix(1000-age, 0))}, Spec: *parse[v1beta1.SidecarSetSpec](t, spec)}
	if canaryOf != "" {
		set.Annotations = map[string]string{v1beta1.AnnotationSidecarSetCanary: "true",
			v1beta1.AnnotationSidecarSetBase: canaryOf}
	}
	return set
}

const web = "{selector: {matchLabels: {app: web}}, containers: ["

func TestConflictsCountOnlySetsThatAreInPods(t *testing.T) {
	oldest := aged(t, "oldest", web+"{name: a}]}", 9, "")
	middle := aged(t, "middle", web+"{name: a}, {name: b}]}", 5, "")
	newest := aged(t, "newest", web+"{name: b}]}", 1, "")
	all := []*v1beta1.SidecarSet{newest, middle, oldest}
	if got := inject.Conflict(middle, all); !strings.Contains(got, "oldest") {
		t.Errorf("the middle one: %q", got)
	}
	if got := inject.Conflict(newest, all); got != "" {
		t.Errorf("the newest is kept out by one that is kept out: %s", got)
	}
	if got := inject.Collision(oldest, all); !strings.Contains(got, "middle") {
		t.Errorf("names that collide, whichever is older: %q", got)
	}
}

func TestACanaryThatIsKeptOutKeepsNoBaseOut(t *testing.T) {
	for _, tt := range []struct {
		name   string
		canary string
		want   string
	}{
		{"it is in the pod", web + "{name: log}]}", "canary other"},
		{"a conflict keeps it out", web + "{name: log}, {name: b}]}", "logs other"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, set := range inject.Effective([]*v1beta1.SidecarSet{
				aged(t, "logs", web+"{name: log}]}", 9, ""), aged(t, "canary", tt.canary, 1, "logs"),
				aged(t, "other", web+"{name: b}]}", 5, ""),
			}) {
				got = append(got, set.Name)
			}
			if strings.Join(got, " ") != tt.want {
				t.Errorf("the pod gets %q, want %s", got, tt.want)
			}
		})
	}
}
