package audit

import (
	_ "embed" // the logs
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// log is what kube-apiserver v1.36 writes, with the fields that are not read here cut.
//
//go:embed testdata/events.log
var log string

func at(seconds float64) time.Time {
	return time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC).Add(time.Duration(seconds * float64(time.Second)))
}

func TestRead(t *testing.T) {
	isMember := func(user string) bool { return strings.HasPrefix(user, "flotilla:member:") }
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
		{"a zero end is no end", []Filter{Between(at(1.5), time.Time{}), ByPrograms("flotilla-agent",
			"flotilla-hub")}, []string{
			"update leases.coordination.k8s.io flotilla:member:east:1 200",
		}},
		{"the impersonated user counts", []Filter{ByUser(isMember)}, []string{
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

func TestReadsOfMetadata(t *testing.T) {
	const line = `{"kind":"Event","stage":"ResponseComplete","verb":"list","user":{"username":"agent"},` +
		`"requestURI":"/api/v1/secrets?labelSelector=a%3Db%2Cc&limit=500","objectRef":{"resource":"secrets"},` +
		`"responseObject":{"kind":"PartialObjectMetadataList","items":[]},"responseStatus":{"code":200}}` + "\n"
	events, err := Read(strings.NewReader(line))
	if err != nil || len(events) != 1 || events[0].LabelSelector != "a=b,c" ||
		events[0].AnswerKind != "PartialObjectMetadataList" {
		t.Errorf("%+v, %v", events, err)
	}
}

//go:embed testdata/requests.log
var requests string

// TestReadRequests holds that a request counts once, answered or not, and with the answer where there is one.
func TestReadRequests(t *testing.T) {
	events, err := ReadRequests(strings.NewReader(requests), func(e *Event) bool { return e.Verb == "delete" })
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
