// Command gitops-health says what GitOps tools read in objects: kstatus (Flux, helm --wait), Argo CD with the health
// checks that it brings along, and Argo CD with those of a ConfigMap argocd-cm. It reads one object in JSON after the
// other on its standard input and prints one verdict in JSON for each. It stands in a module of its own, so that
// nothing of those tools gets into ours.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/argoproj/argo-cd/v3/resource_customizations"
	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	lua "github.com/yuin/gopher-lua"
	"go.yaml.in/yaml/v2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// health is a status and its sentence. Of Argo CD's checks the status is one of Healthy, Progressing, Degraded,
// Suspended, Missing and Unknown; Error where the check itself failed, which Argo CD shows as Unknown; empty where
// there is no check, which Argo CD shows as no health at all. Of kstatus it is one of Current, InProgress, Failed,
// Terminating and NotFound.
type health struct {
	Status  string `json:"status"`
	Message string `json:"message"`
}

// verdict is what each tool reads in one object.
type verdict struct {
	KStatus health `json:"kstatus"`
	// Builtin is Argo CD as it is, Ours with the checks of the ConfigMap.
	Builtin health `json:"builtin"`
	Ours    health `json:"ours"`
}

func main() {
	config := flag.String("argocd-cm", "", "file with a ConfigMap argocd-cm whose health checks take precedence")
	flag.Parse()
	if err := run(*config, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "gitops-health:", err)
		os.Exit(1)
	}
}

func run(config string, in io.Reader, out io.Writer) error {
	checks, err := checksOf(config)
	if err != nil {
		return err
	}
	decoder, encoder := json.NewDecoder(in), json.NewEncoder(out)
	for {
		object := map[string]any{}
		if err := decoder.Decode(&object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read an object: %w", err)
		}
		v, err := judge(object, checks)
		if err != nil {
			return err
		}
		if err := encoder.Encode(v); err != nil {
			return fmt.Errorf("print a verdict: %w", err)
		}
	}
}

// checksOf returns the health checks of a ConfigMap argocd-cm by "<group>_<Kind>".
func checksOf(file string) (map[string]string, error) {
	if file == "" {
		return nil, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	configMap := struct {
		Data map[string]string `yaml:"data"`
	}{}
	if err := yaml.Unmarshal(data, &configMap); err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	checks := map[string]string{}
	for key, script := range configMap.Data {
		if kind, ok := strings.CutPrefix(key, "resource.customizations.health."); ok {
			checks[kind] = script
		}
	}
	if len(checks) == 0 {
		return nil, fmt.Errorf("%s has no key that begins with resource.customizations.health", file)
	}
	return checks, nil
}

func judge(object map[string]any, checks map[string]string) (verdict, error) {
	u := &unstructured.Unstructured{Object: normal(object).(map[string]any)}
	result, err := status.Compute(u)
	if err != nil {
		return verdict{}, fmt.Errorf("ask kstatus for %s %s: %w", u.GetKind(), u.GetName(), err)
	}
	v := verdict{KStatus: health{string(result.Status), result.Message}}
	gvk := u.GroupVersionKind()
	if script, err := resource_customizations.Embedded.ReadFile(gvk.Group + "/" + gvk.Kind + "/health.lua"); err == nil {
		v.Builtin = argo(string(script), object)
	}
	v.Ours = v.Builtin
	if script, ok := checks[gvk.Group+"_"+gvk.Kind]; ok {
		v.Ours = argo(script, object)
	}
	if u.GetDeletionTimestamp() != nil {
		// Argo CD asks no check about what is being deleted.
		v.Builtin = health{"Progressing", "Pending deletion"}
		v.Ours = v.Builtin
	}
	return v, nil
}

// normal makes whole numbers int64, as those who read an API server's answers have them.
func normal(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key := range v {
			v[key] = normal(v[key])
		}
	case []any:
		for i := range v {
			v[i] = normal(v[i])
		}
	case float64:
		if whole := int64(v); float64(whole) == v {
			return whole
		}
	}
	return value
}

// argo runs a check as Argo CD does: the object is the global obj, the answer a table with status and message, and of
// Lua's libraries there are only those that do no I/O.
func argo(script string, object map[string]any) health {
	l := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer l.Close()
	for name, open := range map[string]lua.LGFunction{lua.LoadLibName: lua.OpenPackage, lua.BaseLibName: lua.OpenBase,
		lua.TabLibName: lua.OpenTable, lua.StringLibName: lua.OpenString, lua.MathLibName: lua.OpenMath} {
		if err := l.CallByParam(lua.P{Fn: l.NewFunction(open), Protect: true}, lua.LString(name)); err != nil {
			return health{"Error", err.Error()}
		}
	}
	l.SetGlobal("obj", table(l, object))
	if err := l.DoString(script); err != nil {
		return health{"Error", err.Error()}
	}
	answer, ok := l.Get(-1).(*lua.LTable)
	if !ok {
		return health{"Error", "the check returns no table"}
	}
	return health{lua.LVAsString(answer.RawGetString("status")), lua.LVAsString(answer.RawGetString("message"))}
}

// table is a JSON value in Lua.
func table(l *lua.LState, value any) lua.LValue {
	switch v := value.(type) {
	case map[string]any:
		t := l.NewTable()
		for key, field := range v {
			t.RawSetString(key, table(l, field))
		}
		return t
	case []any:
		t := l.NewTable()
		for _, element := range v {
			t.Append(table(l, element))
		}
		return t
	case string:
		return lua.LString(v)
	case bool:
		return lua.LBool(v)
	case float64:
		return lua.LNumber(v)
	case int64:
		return lua.LNumber(v)
	}
	return lua.LNil
}
