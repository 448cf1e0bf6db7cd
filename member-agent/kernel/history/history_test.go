package history_test

import (
	"bytes"
	"os"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
)

type recorded struct {
	cloneSets []v1beta1.CloneSet
	uds       []v1beta1.UnitedDeployment
	revisions map[string][]*appsv1.ControllerRevision // by the uid of the owner
}

// load reads what an OpenKruise manager left on an API server.
func load(t *testing.T) recorded {
	t.Helper()
	file, err := os.ReadFile("testdata/openkruise.yaml")
	if err != nil {
		t.Fatal(err)
	}
	out := recorded{revisions: map[string][]*appsv1.ControllerRevision{}}
	for _, doc := range bytes.Split(file, []byte("\n---\n")) {
		var meta metav1.TypeMeta
		must(t, yaml.Unmarshal(doc, &meta))
		switch meta.Kind {
		case "CloneSet":
			var cs v1beta1.CloneSet
			must(t, yaml.Unmarshal(doc, &cs))
			out.cloneSets = append(out.cloneSets, cs)
		case "UnitedDeployment":
			var ud v1beta1.UnitedDeployment
			must(t, yaml.Unmarshal(doc, &ud))
			out.uds = append(out.uds, ud)
		case "ControllerRevision":
			revision := &appsv1.ControllerRevision{}
			must(t, yaml.Unmarshal(doc, revision))
			owner := string(metav1.GetControllerOf(revision).UID)
			out.revisions[owner] = append(out.revisions[owner], revision)
		}
	}
	if len(out.cloneSets) == 0 || len(out.uds) == 0 {
		t.Fatal("the recording holds no workloads")
	}
	return out
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestHashIsThatOfTheRecordings(t *testing.T) {
	for _, revisions := range load(t).revisions {
		for _, revision := range revisions {
			if got := history.Hash(revision.Data.Raw, new(int32(0))); got != history.ShortHash(revision) {
				t.Errorf("Hash of %s = %s", revision.Name, got)
			}
		}
	}
}

func TestRecordedTemplatesFindTheirRevision(t *testing.T) {
	rec := load(t)
	for _, cs := range rec.cloneSets {
		revisions := rec.revisions[string(cs.UID)]
		history.Sort(revisions)
		found, err := history.Find(revisions, cs.Spec.Template.PodTemplateSpec)
		must(t, err)
		if found == nil || found.Name != cs.Status.UpdateRevision {
			t.Errorf("CloneSet %s: found %v, want %s", cs.Name, found, cs.Status.UpdateRevision)
		}
	}
	for _, ud := range rec.uds {
		revisions := rec.revisions[string(ud.UID)]
		found, err := history.Find(revisions, ud.Spec.Template)
		must(t, err)
		if found == nil || found.Name != ud.Status.UpdatedRevision {
			t.Errorf("UnitedDeployment %s: found %v, want %s", ud.Name, found, ud.Status.UpdatedRevision)
		}
	}
}

// A manager that compares bytes must know its revisions again.
func TestEncodeWritesTheRecordedBytes(t *testing.T) {
	rec := load(t)
	compared := 0
	for _, cs := range rec.cloneSets {
		data, err := history.Encode(cs.Spec.Template.PodTemplateSpec)
		must(t, err)
		compared += expectBytes(t, rec.revisions[string(cs.UID)], cs.Status.UpdateRevision, data)
	}
	for _, ud := range rec.uds {
		data, err := history.Encode(ud.Spec.Template)
		must(t, err)
		compared += expectBytes(t, rec.revisions[string(ud.UID)], ud.Status.UpdatedRevision, data)
	}
	if compared != len(rec.cloneSets)+len(rec.uds) {
		t.Errorf("%d revisions were compared", compared)
	}
}

func expectBytes(t *testing.T, revisions []*appsv1.ControllerRevision, name string, data []byte) int {
	t.Helper()
	revision := history.Named(revisions, name)
	if revision == nil {
		t.Errorf("revision %s is not recorded", name)
		return 0
	}
	if !bytes.Equal(data, revision.Data.Raw) || history.Hash(data, new(int32(0))) != history.ShortHash(revision) {
		t.Errorf("revision %s is recorded as\n%s\nand is written as\n%s", name, revision.Data.Raw, data)
	}
	return 1
}

func TestMeaning(t *testing.T) {
	const base = `{metadata: {labels: {app: web}}, spec: {containers: [{name: main, image: "nginx:1", ports: [{containerPort: 80}], livenessProbe: {httpGet: {port: 80}}}], volumes: [{name: c, configMap: {name: c}}]}}`
	tests := []struct {
		name  string
		other string
		equal bool
	}{
		{"byte for byte", base, true},
		{"every default written out", `{metadata: {creationTimestamp: null, labels: {app: web}}, spec: {restartPolicy: Always, dnsPolicy: ClusterFirst, schedulerName: default-scheduler, securityContext: {}, terminationGracePeriodSeconds: 30,
			containers: [{name: main, image: "nginx:1", imagePullPolicy: IfNotPresent, resources: {}, terminationMessagePath: /dev/termination-log, terminationMessagePolicy: File, ports: [{containerPort: 80, protocol: TCP}],
			livenessProbe: {httpGet: {port: 80, path: /, scheme: HTTP}, timeoutSeconds: 1, periodSeconds: 10, successThreshold: 1, failureThreshold: 3}}], volumes: [{name: c, configMap: {name: c, defaultMode: 420}}]}}`, true},
		{"another image", `{metadata: {labels: {app: web}}, spec: {containers: [{name: main, image: "nginx:2", ports: [{containerPort: 80}], livenessProbe: {httpGet: {port: 80}}}], volumes: [{name: c, configMap: {name: c}}]}}`, false},
		{"a pull policy that is not the default", `{metadata: {labels: {app: web}}, spec: {containers: [{name: main, image: "nginx:1", imagePullPolicy: Always, ports: [{containerPort: 80}], livenessProbe: {httpGet: {port: 80}}}], volumes: [{name: c, configMap: {name: c}}]}}`, false},
		{"an annotation more, though it is empty", `{metadata: {annotations: {a: ""}, labels: {app: web}}, spec: {containers: [{name: main, image: "nginx:1", ports: [{containerPort: 80}], livenessProbe: {httpGet: {port: 80}}}], volumes: [{name: c, configMap: {name: c}}]}}`, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, b := canonical(t, base), canonical(t, tt.other)
			if bytes.Equal(a, b) != tt.equal {
				t.Errorf("equal = %v, want %v\n%s\n%s", !tt.equal, tt.equal, a, b)
			}
		})
	}
}

func TestPullPolicyOfAnImageWithoutTag(t *testing.T) {
	for image, policy := range map[string]string{
		"nginx": "Always", "nginx:latest": "Always", "nginx:1": "IfNotPresent", "host:5000/nginx": "Always",
		"host:5000/nginx:1": "IfNotPresent", "nginx@sha256:00": "IfNotPresent",
	} {
		plain := canonical(t, `{spec: {containers: [{name: main, image: "`+image+`"}]}}`)
		written := canonical(t, `{spec: {containers: [{name: main, image: "`+image+`", imagePullPolicy: `+policy+`}]}}`)
		if !bytes.Equal(plain, written) {
			t.Errorf("image %s: %s is its default policy", image, policy)
		}
	}
}

func canonical(t *testing.T, text string) []byte {
	t.Helper()
	var template corev1.PodTemplateSpec
	must(t, yaml.Unmarshal([]byte(text), &template))
	out, err := history.Canonical(template)
	must(t, err)
	return out
}

func TestEncodeAndDecode(t *testing.T) {
	in := corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "nginx:1"}}}}
	data, err := history.Encode(in)
	must(t, err)
	if !bytes.Contains(data, []byte(`"$patch":"replace"`)) {
		t.Errorf("data is no replacing patch: %s", data)
	}
	out, err := history.Decode[corev1.PodTemplateSpec](data)
	must(t, err)
	if out.Spec.Containers[0].Image != "nginx:1" {
		t.Errorf("decoded %v", out)
	}
}

func TestExcess(t *testing.T) {
	var revisions []*appsv1.ControllerRevision
	for i, name := range []string{"a-1", "a-2", "a-3", "a-4", "a-5"} {
		revisions = append(revisions, &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: name},
			Revision: int64(i)})
	}
	inUse := func(r *appsv1.ControllerRevision) bool { return r.Name == "a-1" || r.Name == "a-5" }
	tests := []struct {
		name  string
		limit int
		want  []string
	}{
		{"all unused ones go", 0, []string{"a-2", "a-3", "a-4"}},
		{"the newest unused one stays", 1, []string{"a-2", "a-3"}},
		{"nothing to do", 10, nil},
		{"a negative limit is none", -1, []string{"a-2", "a-3", "a-4"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, r := range history.Excess(revisions, inUse, tt.limit) {
				got = append(got, r.Name)
			}
			if len(got) != len(tt.want) || (len(got) > 0 && got[0] != tt.want[0]) {
				t.Errorf("Excess = %v, want %v", got, tt.want)
			}
		})
	}
}

func TestNamed(t *testing.T) {
	revisions := []*appsv1.ControllerRevision{{ObjectMeta: metav1.ObjectMeta{Name: "web-abc"},
		Data: runtime.RawExtension{}}}
	for _, name := range []string{"web-abc", "abc"} {
		if history.Named(revisions, name) == nil {
			t.Errorf("no revision is found for %q", name)
		}
	}
	if history.Named(revisions, "web") != nil || history.Named(revisions, "") != nil {
		t.Error("found a revision by something else than its name or hash")
	}
}
