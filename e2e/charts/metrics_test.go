package charts

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	_ "sigs.k8s.io/controller-runtime/pkg/webhook" // its metrics

	hubmeter "github.com/flotilla-dev/flotilla/hub/meter"
	"github.com/flotilla-dev/flotilla/member-agent/admission"
	"github.com/flotilla-dev/flotilla/member-agent/expiry"
	agentmeter "github.com/flotilla-dev/flotilla/member-agent/meter"
	"github.com/flotilla-dev/flotilla/member-agent/nodedaemon"
	"github.com/flotilla-dev/flotilla/member-agent/nodedaemon/images"
)

// described returns the names of the metrics that a collector has.
func described(c prometheus.Collector) map[string]bool {
	descriptions := make(chan *prometheus.Desc)
	go func() {
		c.Describe(descriptions)
		close(descriptions)
	}()
	names, name := map[string]bool{}, regexp.MustCompile(`fqName: "([^"]+)"`)
	for d := range descriptions {
		if found := name.FindStringSubmatch(d.String()); found != nil {
			names[found[1]] = true
		}
	}
	return names
}

// ownMetrics are the names of our programs' own metrics.
func ownMetrics(t *testing.T) map[string]bool {
	t.Helper()
	// Packages member-agent/admission and member-agent/workloads/{workloadspread/mutator,podunavailablebudget/budgets,
	// sidecarset} have tests for these.
	names := map[string]bool{"flotilla_pod_admissions_total": true, "flotilla_pod_budget_refusals_total": true,
		"flotilla_sidecarset_missing_pods": true,
		admission.SecondsMetric:            true, admission.WaitsMetric: true}
	for _, c := range append(images.Metrics(), nodedaemon.NewHealth().Metric(),
		hubmeter.New(nil, nil, nil, clock.RealClock{}).Collector(t.Context()),
		agentmeter.New(nil, agentmeter.Sources{}).Collector(t.Context()),
		expiry.New(nil, "hub", func() (begin, end time.Time, ok bool) { return }),
	) {
		maps.Copy(names, described(c))
	}
	return names
}

// knownMetrics are the names of our own metrics, and of those of controllers.
func knownMetrics(t *testing.T) map[string]bool {
	t.Helper()
	all, ok := metrics.Registry.(prometheus.Collector)
	if !ok {
		t.Fatalf("the registry %T does not describe its metrics", metrics.Registry)
	}
	known := described(all)
	maps.Copy(known, ownMetrics(t))
	// The client library registers these with controller-runtime, which describes them when they were used first. It
	// describes those of the process by what the system has.
	for _, name := range []string{"rest_client_requests_total", "process_resident_memory_bytes",
		"leader_election_master_status"} {
		known[name] = true
	}
	return known
}

// asked returns the metrics that an expression of Prometheus asks for, and what is wrong with its brackets. It is no
// parser: what is in quotes and braces and what names labels is taken out, and of what is left every name that is no
// function and no word of the language is a metric.
func asked(expr string) (names []string, wrong error) {
	for _, cut := range []string{`"[^"]*"`, `\{[^{}"]*\}`, `\[[^\[\]]*\]`,
		`\b(by|without|on|ignoring|group_left|group_right)\s*\([^()]*\)`} {
		expr = regexp.MustCompile(cut).ReplaceAllString(expr, " ")
	}
	depth := 0
	for _, c := range expr {
		switch c {
		case '(':
			depth++
		case ')':
			depth--
		case '{', '}', '[', ']', '"':
			return nil, fmt.Errorf("%q has quotes, braces or brackets that do not match", expr)
		}
		if depth < 0 {
			break
		}
	}
	if depth != 0 {
		return nil, fmt.Errorf("%q has as many ( as ) not", expr)
	}
	words := []string{"and", "or", "unless", "bool", "offset"}
	for _, at := range regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*\s*\(?`).FindAllString(expr, -1) {
		if name := strings.TrimSpace(at); !strings.HasSuffix(name, "(") && !slices.Contains(words, name) {
			names = append(names, name)
		}
	}
	return names, nil
}

func TestAsked(t *testing.T) {
	for expr, want := range map[string]string{
		`absent(a_b{job="x(y)"} == 1)`: "a_b",
		`histogram_quantile(0.99, sum by (le, kind) (rate(a_bucket{k=~"c.*"}[$__rate_interval])))`: "a_bucket",
		`min by (c) (a - time()) / on (c) group_left (d) b or vector(0)`:                           "a b",
		`sum(a`:      "error",
		`a)+(b`:      "error",
		`rate(a[5m)`: "error",
		`a{job="x}`:  "error",
	} {
		names, err := asked(expr)
		got := strings.Join(names, " ")
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("%s asks for %q (%v), want %q", expr, got, err, want)
		}
	}
}

// unknown returns what is wrong with the metrics of an expression.
func unknown(expr string, known map[string]bool) error {
	names, err := asked(expr)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return fmt.Errorf("it asks for no metric: %s", expr)
	}
	for _, name := range names {
		whole := name
		for _, suffix := range []string{"_bucket", "_count", "_sum"} { // of histograms
			whole = strings.TrimSuffix(whole, suffix)
		}
		if !known[name] && !known[whole] {
			return fmt.Errorf("it asks for %s, which no program has", name)
		}
	}
	return nil
}

// rendered returns the objects of a kind that a chart renders with all that is off by default. TestGolden holds that
// the file is what the chart renders.
func rendered(t *testing.T, golden, kind string) []*unstructured.Unstructured {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", golden+".golden.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var all []*unstructured.Unstructured
	decoder := utilyaml.NewYAMLOrJSONDecoder(file, 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("read %s: %v", file.Name(), err)
		}
		if object.GetKind() == kind {
			all = append(all, object)
		}
	}
}

// TestAlerts holds that alerts ask for metrics that our programs have, and that each has a heading in docs/install.md,
// which has no others.
func TestAlerts(t *testing.T) {
	known := knownMetrics(t)
	docs, err := os.ReadFile(filepath.Join("..", "..", "docs", "install.md"))
	if err != nil {
		t.Fatal(err)
	}
	alerts := map[string]bool{}
	for _, golden := range []string{"hub-everything", "agent-everything", "node-everything"} {
		for _, object := range rendered(t, golden, "PrometheusRule") {
			groups, _, _ := unstructured.NestedSlice(object.Object, "spec", "groups")
			for _, group := range groups {
				rules, _, _ := unstructured.NestedSlice(group.(map[string]any), "rules")
				for _, rule := range rules {
					alert, _, _ := unstructured.NestedString(rule.(map[string]any), "alert")
					expr, _, _ := unstructured.NestedString(rule.(map[string]any), "expr")
					runbook, _, _ := unstructured.NestedString(rule.(map[string]any), "annotations", "runbook_url")
					alerts[alert] = true
					if err := unknown(expr, known); err != nil {
						t.Errorf("%s: %v", alert, err)
					}
					if !strings.Contains(string(docs), "\n### "+alert+"\n") ||
						!strings.HasSuffix(runbook, "docs/install.md#"+strings.ToLower(alert)) {
						t.Errorf("%s has no heading in docs/install.md, or its runbook is another one: %s", alert, runbook)
					}
				}
			}
		}
	}
	const least = 6
	if len(alerts) < least {
		t.Errorf("%d alerts: %v", len(alerts), alerts)
	}
	for _, heading := range regexp.MustCompile(`(?m)^### (Flotilla\w+)$`).FindAllStringSubmatch(string(docs), -1) {
		if !alerts[heading[1]] {
			t.Errorf("docs/install.md has a heading for the alert %s, which there is not", heading[1])
		}
	}
}

// dashboard is what a test reads of a dashboard of Grafana.
type dashboard struct {
	UID, Title, Description string
	SchemaVersion           int
	Templating              struct {
		List []struct{ Name, Type, Definition string }
	}
	Panels []struct {
		ID                       int
		Type, Title, Description string
		Datasource               struct{ Type, UID string }
		GridPos                  struct{ X, Y, W, H int }
		Targets                  []struct {
			RefID, Expr, LegendFormat string
			Datasource                struct{ Type, UID string }
		}
	}
}

// TestDashboards holds that each dashboard is well formed, that its panels ask for metrics that our programs have, by a
// data source that the reader chooses, that they say what they show, and that none lies on another. The charts carry
// all of them.
func TestDashboards(t *testing.T) {
	known := knownMetrics(t)
	variable, width := regexp.MustCompile(`\$(\w+)`), 24
	for golden, folder := range map[string]string{"hub-everything": "flotilla-hub", "agent-everything": "flotilla-agent"} {
		files, err := filepath.Glob(filepath.Join("..", "..", "charts", folder, "dashboards", "*.json"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s has no dashboards (%v)", folder, err)
		}
		carried := map[string]string{}
		for _, object := range rendered(t, golden, "ConfigMap") {
			data, _, _ := unstructured.NestedStringMap(object.Object, "data")
			if object.GetLabels()["grafana_dashboard"] == "1" {
				maps.Copy(carried, data)
			}
		}
		if len(carried) != len(files) {
			t.Errorf("%s carries %d dashboards of %d", folder, len(carried), len(files))
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got := carried["flotilla-"+filepath.Base(file)]; strings.TrimSpace(got) != strings.TrimSpace(string(data)) {
				t.Errorf("%s carries another %s", folder, filepath.Base(file))
			}
			// Names of Grafana begin with a small letter; encoding/json takes these fields for them.
			d := dashboard{}
			if err := json.Unmarshal(data, &d); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if d.UID == "" || d.Title == "" || d.Description == "" || d.SchemaVersion == 0 || len(d.Panels) == 0 {
				t.Errorf("%s has no uid, title, description, schema version or panels", file)
			}
			variables := map[string]string{"__rate_interval": "Grafana's own"}
			for _, v := range d.Templating.List {
				variables[v.Name] = v.Type
				if v.Definition != "" {
					if found := regexp.MustCompile(`^label_values\((\w+), \w+\)$`).FindStringSubmatch(v.Definition); found == nil ||
						!known[found[1]] {
						t.Errorf("%s: variable %s: %s", file, v.Name, v.Definition)
					}
				}
			}
			if variables["datasource"] != "datasource" {
				t.Errorf("%s has no variable datasource", file)
			}
			taken, ids := map[[2]int]string{}, map[int]bool{}
			for _, p := range d.Panels {
				at := fmt.Sprintf("%s: %q", file, p.Title)
				if p.Title == "" || p.Description == "" || p.Type == "" || ids[p.ID] || p.Datasource.UID != "${datasource}" ||
					len(p.Targets) == 0 {
					t.Errorf("%s has no title, description, type, id of its own, chosen data source or query", at)
				}
				ids[p.ID] = true
				if p.GridPos.W < 1 || p.GridPos.H < 1 || p.GridPos.X+p.GridPos.W > width {
					t.Errorf("%s is out of the grid: %+v", at, p.GridPos)
				}
				for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
					for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
						if other, ok := taken[[2]int{x, y}]; ok {
							t.Fatalf("%s lies on %s", at, other)
						}
						taken[[2]int{x, y}] = at
					}
				}
				for _, q := range p.Targets {
					if q.Datasource.UID != "${datasource}" || q.LegendFormat == "" || q.RefID == "" {
						t.Errorf("%s: query %s has no chosen data source or no legend", at, q.RefID)
					}
					if err := unknown(q.Expr, known); err != nil {
						t.Errorf("%s: %v", at, err)
					}
					for _, name := range variable.FindAllStringSubmatch(q.Expr, -1) {
						if variables[name[1]] == "" {
							t.Errorf("%s asks by $%s, which is no variable", at, name[1])
						}
					}
				}
			}
		}
	}
}

// TestMetricsAreDocumented holds that docs/tasks/look-after-it.md has a row for each metric of our own, and none for
// another.
func TestMetricsAreDocumented(t *testing.T) {
	docs, err := os.ReadFile(filepath.Join("..", "..", "docs", "tasks", "look-after-it.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(flotilla_[a-z_]+)[`{]").FindAllStringSubmatch(string(docs), -1) {
		rows[row[1]] = true
	}
	own := ownMetrics(t)
	for name := range own {
		if !rows[name] {
			t.Errorf("docs/tasks/look-after-it.md does not say which question %s answers", name)
		}
	}
	for name := range rows {
		if !own[name] {
			t.Errorf("docs/tasks/look-after-it.md has a row for %s, which no program has", name)
		}
	}
}
