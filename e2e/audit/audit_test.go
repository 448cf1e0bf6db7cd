package audit

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// log is what kube-apiserver v1.36 writes, with the fields that are not read here cut.
const log = `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","stage":"ResponseComplete","requestURI":"/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-east/works?fieldManager=flotilla-delivery","verb":"create","user":{"username":"kubernetes-admin","groups":["system:masters"]},"userAgent":"flotilla-hub/v0.0.0 (linux/amd64) kubernetes/$Format","objectRef":{"resource":"works","namespace":"karmada-es-east","name":"a.b.cloneset","apiGroup":"work.karmada.io","apiVersion":"v1alpha1"},"responseStatus":{"metadata":{},"code":201},"requestReceivedTimestamp":"2026-11-21T03:00:00.500000Z","stageTimestamp":"2026-11-21T03:00:00.507000Z"}
{"kind":"Event","stage":"RequestReceived","verb":"patch","user":{"username":"flotilla:member:east:1"},"userAgent":"flotilla-agent/v0.1.0","objectRef":{"resource":"works","namespace":"karmada-es-east","name":"a.b.cloneset","apiGroup":"work.karmada.io","subresource":"status"},"requestReceivedTimestamp":"2026-11-21T03:00:01.000000Z","stageTimestamp":"2026-11-21T03:00:01.000000Z"}
{"kind":"Event","stage":"ResponseComplete","verb":"patch","user":{"username":"flotilla:member:east:1"},"userAgent":"flotilla-agent/v0.1.0","objectRef":{"resource":"works","namespace":"karmada-es-east","name":"a.b.cloneset","apiGroup":"work.karmada.io","subresource":"status"},"responseStatus":{"code":409},"requestReceivedTimestamp":"2026-11-21T03:00:01.000000Z","stageTimestamp":"2026-11-21T03:00:01.000000Z"}

{"kind":"Event","stage":"ResponseComplete","verb":"update","user":{"username":"admin"},"impersonatedUser":{"username":"flotilla:member:east:1"},"userAgent":"flotilla-agent/v0.1.0","objectRef":{"resource":"leases","namespace":"karmada-es-east","name":"east","apiGroup":"coordination.k8s.io"},"responseStatus":{"code":200},"requestReceivedTimestamp":"2026-11-21T03:00:02.000000Z","stageTimestamp":"2026-11-21T03:00:02.000000Z"}
{"kind":"Event","stage":"ResponseComplete","verb":"get","user":{"username":"admin"},"userAgent":"kubectl/v1","objectRef":{"resource":"pods","namespace":"default"},"responseStatus":{"code":200},"requestReceivedTimestamp":"2026-11-21T03:00:03.000000Z","stageTimestamp":"2026-11-21T03:00:03.000000Z"}
{"kind":"Event","stage":"ResponseComplete","verb":"create","user":{"username":"adm`

func at(seconds float64) time.Time {
	return time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC).Add(time.Duration(seconds * float64(time.Second)))
}

func TestRead(t *testing.T) {
	tests := []struct {
		name    string
		filters []Filter
		want    []string
	}{
		{"one event per answered request, and none for the line that is being written", nil, []string{
			"create works.work.karmada.io kubernetes-admin 201",
			"patch works.work.karmada.io/status flotilla:member:east:1 409",
			"update leases.coordination.k8s.io flotilla:member:east:1 200",
			"get pods admin 200",
		}},
		{"writes are neither reads nor Leases", []Filter{Writes()}, []string{
			"create works.work.karmada.io kubernetes-admin 201",
			"patch works.work.karmada.io/status flotilla:member:east:1 409",
		}},
		{"the start belongs to the time, the end does not", []Filter{Between(at(1), at(2))}, []string{
			"patch works.work.karmada.io/status flotilla:member:east:1 409",
		}},
		{"a zero end is no end", []Filter{Between(at(1.5), time.Time{}), ByPrograms("flotilla-agent", "flotilla-hub")}, []string{
			"update leases.coordination.k8s.io flotilla:member:east:1 200",
		}},
		{"the impersonated user counts", []Filter{ByUser(func(user string) bool { return strings.HasPrefix(user, "flotilla:member:") })}, []string{
			"patch works.work.karmada.io/status flotilla:member:east:1 409",
			"update leases.coordination.k8s.io flotilla:member:east:1 200",
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			events, err := Read(strings.NewReader(log), test.filters...)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, k := range events {
				got = append(got, strings.Join([]string{k.Verb, k.FullResource(), k.User, strconv.Itoa(k.Code)}, " "))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

// TestReadRequests holds that a request counts once, answered or not, and with the answer where there is one.
func TestReadRequests(t *testing.T) {
	events, err := ReadRequests(strings.NewReader(`{"auditID":"a","stage":"RequestReceived","verb":"delete","user":{"username":"admin"},"objectRef":{"resource":"pods","name":"one"},"requestReceivedTimestamp":"2026-11-21T03:00:00Z","stageTimestamp":"2026-11-21T03:00:00Z"}
{"auditID":"b","stage":"RequestReceived","verb":"delete","user":{"username":"admin"},"objectRef":{"resource":"pods","name":"two"},"requestReceivedTimestamp":"2026-11-21T03:00:01Z","stageTimestamp":"2026-11-21T03:00:01Z"}
{"auditID":"c","stage":"ResponseComplete","verb":"delete","user":{"username":"admin"},"objectRef":{"resource":"pods","name":"three"},"responseStatus":{"code":200},"requestReceivedTimestamp":"2026-11-21T03:00:00Z","stageTimestamp":"2026-11-21T03:00:02Z"}
{"auditID":"d","stage":"RequestReceived","verb":"delete","user":{"username":"admin"},"objectRef":{"resource":"pods","name":"four"},"requestReceivedTimestamp":"2026-11-21T03:00:03Z","stageTimestamp":"2026-11-21T03:00:03Z"}
{"auditID":"d","stage":"Panic","verb":"delete","user":{"username":"admin"},"objectRef":{"resource":"pods","name":"four"},"responseStatus":{"code":500},"requestReceivedTimestamp":"2026-11-21T03:00:03Z","stageTimestamp":"2026-11-21T03:00:04Z"}
{"auditID":"a","stage":"ResponseComplete","verb":"delete","user":{"username":"admin"},"objectRef":{"resource":"pods","name":"one"},"responseStatus":{"code":504},"requestReceivedTimestamp":"2026-11-21T03:00:00Z","stageTimestamp":"2026-11-21T03:00:05Z"}
{"auditID":"e","stage":"ResponseComplete","verb":"create","user":{"username":"admin"},"objectRef":{"resource":"pods","name":"five"},"responseStatus":{"code":201},"requestReceivedTimestamp":"2026-11-21T03:00:06Z","stageTimestamp":"2026-11-21T03:00:06Z"}
`), func(e *Event) bool { return e.Verb == "delete" })
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range events {
		took := "never"
		if !events[i].Answered.IsZero() {
			took = events[i].Answered.Sub(events[i].Received).String()
		}
		got = append(got, strings.Join([]string{events[i].Name, strconv.Itoa(events[i].Code), took}, " "))
	}
	if diff := cmp.Diff([]string{"one 504 5s", "two 0 never", "three 200 2s", "four 500 1s"}, got); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestReadNamesTheBadLine(t *testing.T) {
	_, err := Read(strings.NewReader("{}\nnot json\n"))
	if err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("error %v does not name line 2", err)
	}
}

func TestCount(t *testing.T) {
	events, err := Read(strings.NewReader(log), Writes())
	if err != nil {
		t.Fatal(err)
	}
	counts := Count(append(events, events[1]))
	if got := counts.Total(nil); got != 3 {
		t.Errorf("total %d, want 3", got)
	}
	if got := counts.Conflicts(); got != 2 {
		t.Errorf("conflicts %d, want 2", got)
	}
	if got := counts.Keys()[0]; got.Program != "flotilla-agent" || counts[got] != 2 {
		t.Errorf("the largest count comes first, got %v", got)
	}
	if text := counts.String(); !strings.Contains(text, "flotilla-hub") ||
		!strings.Contains(text, "works.work.karmada.io/status") {
		t.Errorf("table lacks a line:\n%s", text)
	}
}
