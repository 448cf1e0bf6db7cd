package revision_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history/sidecars"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/revision"
)

func spec(t *testing.T, text string) *v1beta1.SidecarSetSpec {
	t.Helper()
	out := &v1beta1.SidecarSetSpec{}
	if err := json.Unmarshal([]byte(text), out); err != nil {
		t.Fatal(err)
	}
	return out
}

const (
	written   = `{"containers":[{"name":"side","image":"busybox:1.36"}]}`
	defaulted = `{"containers":[{"name":"side","image":"busybox:1.36","resources":{},` +
		`"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File",` +
		`"imagePullPolicy":"IfNotPresent","podInjectPolicy":"BeforeAppContainer",` +
		`"upgradeStrategy":{"upgradeType":"ColdUpgrade"},"shareVolumePolicy":{"type":"disabled"}}]}`
)

// TestPublishedHashes pins the hashes of an OpenKruise manager, byte for byte.
func TestPublishedHashes(t *testing.T) {
	want := revision.Hashes{
		All:          "c9v552d9ffd5xdx856f86bzfz4fw2w776522vz5bdb49bcbzw45c229wfxv9wfcw",
		WithoutImage: "487f8z7d9f29bxbbvcwcz4z54x2db6wdcwf4x6bd2ddf6fw485594c96f867x7w2",
	}
	for _, text := range []string{written, defaulted} {
		if got, err := revision.HashesOf(spec(t, text)); err != nil || got != want {
			t.Errorf("%s: %v, %v, want %v", text, got, err, want)
		}
	}
}

func TestHashesCountContainersAlone(t *testing.T) {
	base, err := revision.HashesOf(spec(t, written))
	if err != nil {
		t.Fatal(err)
	}
	container := func(more string) string { return `{"containers":[{"name":"side","image":"busybox:1.36"` + more + `}]}` }
	beside := func(more string) string { return strings.TrimSuffix(written, "}") + more + "}" }
	for _, tt := range []struct {
		name, text        string
		same, withoutSame bool
	}{
		{"another image", strings.ReplaceAll(written, "1.36", "1.37"), false, true},
		{"another command", container(`,"command":["a"]`), false, false},
		{"volumes", beside(`,"volumes":[{"name":"a"}]`), true, true},
		{"selector", beside(`,"selector":{"matchLabels":{"a":"b"}}`), true, true},
		{"an init container", beside(`,"initContainers":[{"name":"a","image":"b"}]`), true, true},
		{"a native sidecar", beside(`,"initContainers":[{"name":"a","image":"b","restartPolicy":"Always"}]`), false, false},
		{"a startup probe", container(`,"startupProbe":{"httpGet":{"port":1}}`), false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := revision.HashesOf(spec(t, tt.text))
			if err != nil || (got.All == base.All) != tt.same || (got.WithoutImage == base.WithoutImage) != tt.withoutSame {
				t.Errorf("%v, %v; the base is %v", got, err, base)
			}
		})
	}
}

// TestUndecodable: what cannot be decoded is named with its path and its value.
func TestUndecodable(t *testing.T) {
	for text, want := range map[string]string{
		`{"containers":[{"name":"side","args":5}]}`: "spec.containers[0].args: Invalid value: 5: must be of type array; " +
			"correct the value",
		`{"containers":[{"name":"side","resources":{"limits":{"cpu":"much"}}}]}`: "spec.containers[0].resources.limits[cpu]",
		`{"initContainers":[{"name":"a"},{"name":"b","env":[{"name":"A","value":true}]}]}`: "spec.initContainers[1].env[0]." +
			"value: Invalid value: true: must be of type string",
		`{"volumes":[{"name":"v","emptyDir":"x"}]}`: `spec.volumes[0].emptyDir: Invalid value: "x": must be of type object`,
	} {
		_, err := revision.HashesOf(spec(t, text))
		if volumes := revision.Err(spec(t, text)); err == nil {
			err = volumes // hashes count containers alone
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// TestContentHasAllFields pins the published form of a revision.
func TestContentHasAllFields(t *testing.T) {
	data, err := json.Marshal(sidecars.ContentOf(&v1beta1.SidecarSetSpec{}))
	const want = `{"volumes":null,"containers":null,"initContainers":null,"imagePullSecrets":null,"patchPodMetadata":null}`
	if err != nil || string(data) != want {
		t.Errorf("%s, %v, want %s", data, err, want)
	}
}

func TestRevisionsOfTheSameMeaning(t *testing.T) {
	content := func(text string) sidecars.Content { return sidecars.ContentOf(spec(t, text)) }
	data, err := sidecars.Encode(content(written))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"spec":{"$patch":"replace","containers":[`
	if !strings.HasPrefix(string(data), want) {
		t.Errorf("%s, want it to begin with %s", data, want)
	}
	decoded, err := sidecars.Decode(data)
	if err != nil || !sidecars.Same(decoded, content(defaulted)) {
		t.Errorf("%v, %v", decoded, err)
	}
	for _, other := range []string{
		strings.ReplaceAll(written, "1.36", "1.37"), `{}`,
		strings.TrimSuffix(written, "}") + `,"volumes":[{"name":"a"}]}`,
	} {
		if sidecars.Same(decoded, content(other)) {
			t.Errorf("%s means the same", other)
		}
	}
}
