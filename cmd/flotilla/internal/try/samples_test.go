package try

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/spf13/cobra"

	"github.com/flotilla-dev/flotilla/e2e/fleet"
)

const goodSample = `# A comment is no document.
---
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: apps.kruise.io/v1beta1
kind: CloneSet
metadata: {name: api, namespace: shop}
spec:
  replicas: 3
`

func TestSamplesAreReadStrictly(t *testing.T) {
	tests := []struct {
		name, text, want string
	}{
		{"good", goodSample, ""},
		{"a field that does not exist", goodSample + "  replica: 3\n",
			`sample a.yaml: CloneSet "api": unknown field "spec.replica"; correct it, nothing was started`},
		{"deep in the template", goodSample + "  template: {spec: {containers: [{name: a, imag: b}]}}\n",
			`unknown field "spec.template.spec.containers[0].imag"`},
		{"of a kind of Kubernetes", "apiVersion: v1\nkind: Namespace\nmetadata: {nam: shop}\n",
			`Namespace "": unknown field "metadata.nam"`},
		{"a field twice", goodSample + "  replicas: 4\n", `"replicas" already set in map; correct it`},
		{"a type that is wrong", goodSample + "  minReadySeconds: soon\n", `CloneSet "api": `},
		{"a kind of ours that does not exist", "apiVersion: apps.kruise.io/v1beta1\nkind: CloneSett\nmetadata: {name: a}\n",
			`there is no kind CloneSett in apps.kruise.io/v1beta1`},
		{"somebody else's kind", "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a}\nspec: {any: 1}\n", ""},
		{"no kind", "metadata: {name: a}\n", "document 1 has no apiVersion or no kind"},
		{"no YAML", "a: [\n", "sample a.yaml: "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			all, err := parseSamples(fstest.MapFS{"a.yaml": {Data: []byte(tt.text)}})
			switch {
			case tt.want == "" && (err != nil || len(all) == 0):
				t.Errorf("%d objects, %v", len(all), err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n")):
				t.Errorf("error %v, want one sentence with %q", err, tt.want)
			}
		})
	}
}

func TestOwnSamplesAreRead(t *testing.T) {
	all, err := (&options{}).readSamples()
	if err != nil || len(all) < 4 {
		t.Errorf("%d objects, %v", len(all), err)
	}
}

func TestBadSampleStartsNothing(t *testing.T) {
	dir, bad, programs := filepath.Join(t.TempDir(), "try"), t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(bad, "1.yaml"), []byte(goodSample+"  replica: 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{fleet.HubProgram, fleet.AgentProgram} {
		if err := os.WriteFile(filepath.Join(programs, name), nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	o := &options{dir: dir, samples: bad, programs: programs, output: "text", timeout: time.Minute}
	cmd, said := &cobra.Command{}, &strings.Builder{}
	cmd.SetContext(t.Context())
	cmd.SetErr(said)
	if err := o.up(cmd); err == nil || !strings.Contains(err.Error(), `unknown field "spec.replica"`) {
		t.Errorf("up: %v", err)
	}
	if _, err := os.Stat(dir); err == nil || said.Len() > 0 {
		t.Errorf("something was started: %s", said)
	}
}

func TestHintsRepeatTheFlags(t *testing.T) {
	here := t.TempDir()
	t.Chdir(here)
	if err := os.Mkdir(filepath.Join(here, ".try"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		o          options
		verb, want string
	}{
		{options{}, "status", " try status"},
		{options{dir: ".try"}, "status", " try status --dir ./.try"},
		{options{dir: filepath.Join(here, ".try")}, "stop west", " try stop west --dir ./.try"},
		{options{dir: "/elsewhere/a b"}, "down", " try down --dir '/elsewhere/a b'"},
		{options{dir: "x", bin: "/bin", programs: "it's", samples: "s"}, "up",
			` try up --dir ./x --bin /bin --programs 'it'\''s' --samples s`},
	} {
		if got := tt.o.self(tt.verb); !strings.HasSuffix(got, tt.want) {
			t.Errorf("%+v: %q, want it to end with %q", tt.o, got, tt.want)
		}
	}
}
