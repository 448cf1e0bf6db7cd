package kinds

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1alpha1"
	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
)

func probeMarker(probes ...string) *v1alpha1.PodProbeMarker {
	m := &v1alpha1.PodProbeMarker{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "roles", Generation: 3}}
	m.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}
	for _, name := range probes {
		m.Spec.Probes = append(m.Spec.Probes, v1alpha1.PodContainerProbe{Name: name, ContainerName: "db"})
	}
	return m
}

func TestPodProbeMarkersThatAreRead(t *testing.T) {
	m := probeMarker("leader")
	w, rejection := readPodProbeMarker(m)
	if rejection != nil || w.Key.Sentence() != "PodProbeMarker shop/roles" || len(w.Subsets) > 0 || w.NoWaves == "" ||
		w.Ref.APIVersion != "apps.kruise.io/v1alpha1" {
		t.Errorf("%+v, %v", w, rejection)
	}
	if other, _ := readPodProbeMarker(probeMarker("follower")); other.Revision == w.Revision {
		t.Error("another probe changes no revision")
	}
	manifest, err := renderPodProbeMarker(m, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(&m.Spec, manifest.Spec); diff != "" {
		t.Errorf("members get another spec: %s", diff)
	}
}

// TestUseOfPodProbeMarkers: the number of pods that are probed is no use, so that a pod more or less makes no order.
func TestUseOfPodProbeMarkers(t *testing.T) {
	for _, status := range []string{`{"matchedPods": 0}`, `{"matchedPods": 3}`} {
		usage, err := reflectPodProbeMarker(&Reflected{Status: []byte(status), Seen: true, Current: true})
		if err != nil || !usage.Answered || len(usage.InUse) != 1 || usage.InUse[0] != (work.SubsetUse{}) {
			t.Errorf("%s: %+v, %v", status, usage, err)
		}
	}
	if _, err := reflectPodProbeMarker(&Reflected{Status: []byte(`[]`)}); err == nil {
		t.Error("a list is no status")
	}
}

// TestStatusOfPodProbeMarkers: counters are sums, and what members wait for is named with the member.
func TestStatusOfPodProbeMarkers(t *testing.T) {
	const (
		leads = `{"name":"leader","succeeded":%d,"failed":%d,"unknown":%d}`
		yes   = `"conditions":[{"type":"Ready","status":"True","reason":"Probed","message":""}]`
	)
	member := func(pods int, ready string, counts ...any) []byte {
		status, reason, message := "True", "Probed", ""
		if name, text, waits := strings.Cut(ready, ": "); waits {
			status, reason, message = "False", name, text
		}
		text, err := json.Marshal(message)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Appendf(nil, `{"matchedPods":%d,"conditions":[{"type":"Ready","status":%q,"reason":%q,"message":%s}],`+
			`"flotilla":{"probes":[`+leads+`]}}`, append([]any{pods, status, reason, text}, counts...)...)
	}
	waits := member(2, "AwaitingResults: node-1 is silent", 0, 0, 2)
	now := time.Unix(2_000_000, 0)
	for name, tt := range map[string]struct {
		statuses [][]byte
		generic  string // the reason of Ready that all kinds share
		pods     int64
		counts   string
		want     string // of Ready
		status   metav1.ConditionStatus
	}{
		"all have results": {[][]byte{member(3, "", 1, 2, 0), member(2, "", 0, 2, 0)}, "", 5, "1 4 0",
			"Probed: pods that are probed: 5, in 2 members", "True"},
		"no pod": {[][]byte{member(0, "", 0, 0, 0), member(0, "", 0, 0, 0)}, "", 0, "0 0 0",
			"NoPod: selector selects no running pod of 2 members with a container of the probes", "True"},
		"results are missing": {[][]byte{member(3, "", 1, 2, 0), waits}, "", 5, "1 2 2",
			"AwaitingResults: west: node-1 is silent", "False"},
		"refused comes first": {[][]byte{waits, member(1, "MarksRefused: denied by policy marks", 1, 0, 0)}, "", 3, "1 0 2",
			"MarksRefused: west: denied by policy marks; and 1 more", "False"},
		"a long message is cut": {[][]byte{member(1, "ProbeUnreachable: "+strings.Repeat("x", 5000), 0, 0, 1)}, "", 1,
			"0 0 1", "ProbeUnreachable: east: " + strings.Repeat("x", 1000) + " …", "False"},
		"no reason of a condition": {[][]byte{member(1, "no reason: b", 0, 0, 1)}, "", 1, "0 0 1",
			"AwaitingResults: east: b", "False"},
		"impossible numbers": {[][]byte{member(1, "", -1, 1000, 0)}, "", 1, "0 1 0",
			"Probed: pods that are probed: 1, in 1 members", "True"},
		"more results than pods": {[][]byte{member(3, "", 2, 2, 2)}, "", 3, "2 1 0",
			"Probed: pods that are probed: 3, in 1 members", "True"},
		"a probe many times": {[][]byte{fmt.Appendf(nil, `{"matchedPods":1000000,%s,"flotilla":{"probes":[%s]}}`, yes,
			strings.Repeat(fmt.Sprintf(leads+",", 1000000, 0, 0), 3000)+fmt.Sprintf(leads, 0, 0, 0))}, "", 1000000,
			"1000000 0 0", "Probed: pods that are probed: 1000000, in 1 members", "True"},
		"another probe": {[][]byte{[]byte(`{"matchedPods":1,` + yes + `,"flotilla":{"probes":[{"name":"x","failed":1}]}}`)},
			"", 1, "0 0 0", "Probed: pods that are probed: 1, in 1 members", "True"},
		"another status": {[][]byte{member(1, "", 0, 1, 0), []byte(`[]`)}, "", 1, "0 1 0",
			"AwaitingResults: west: its status cannot be read", "False"},
		"a status of OpenKruise": {[][]byte{[]byte(`{"matchedPods":2,"observedGeneration":1}`),
			member(1, "", 1, 0, 0)}, "", 3, "1 0 2", "AwaitingResults: east: its status has no condition Ready", "False"},
		"not known whether it is ready": {[][]byte{[]byte(`{"conditions":[{"type":"Ready","status":"Unknown",` +
			`"reason":"Lost","message":"m"}],"flotilla":{}}`)}, "", 0, "0 0 0", "Lost: east: m", "False"},
		"members do not answer": {[][]byte{waits}, "MembersNotReady", 2, "0 0 2", "MembersNotReady: ", "False"},
	} {
		t.Run(name, func(t *testing.T) {
			m := probeMarker("leader")
			sum := Sum{Statuses: tt.statuses, Members: []string{"east", "west"}[:len(tt.statuses)], ObservedGeneration: 3}
			generic := cmp.Or(tt.generic, conditions.ReasonAllAvailable)
			for _, c := range []string{apps.ConditionReady, apps.ConditionReconciling, apps.ConditionProgressing} {
				sum.Conditions = append(sum.Conditions, conditions.Condition{Type: c, Status: "False", Reason: generic})
			}
			if !podProbeMarkerStatus(m, &sum, now) || podProbeMarkerStatus(m, &sum, now.Add(time.Hour)) {
				t.Error("nothing changed, or the same sum changed it again")
			}
			s := &m.Status
			if s.MatchedPods != tt.pods || s.ObservedGeneration != 3 || len(s.Flotilla.Probes) != 1 {
				t.Errorf("%+v", s)
			}
			counts := s.Flotilla.Probes[0]
			if got := fmt.Sprint(counts.Succeeded, counts.Failed, counts.Unknown); got != tt.counts {
				t.Errorf("%s, want %s", got, tt.counts)
			}
			ready := meta.FindStatusCondition(s.Conditions, apps.ConditionReady)
			if got := ready.Reason + ": " + ready.Message; got != tt.want || ready.Status != tt.status {
				t.Errorf("Ready is %s, %s; want %s, %s", ready.Status, got, tt.status, tt.want)
			}
			reconciling := tt.status == "False" && tt.generic == ""
			if meta.IsStatusConditionTrue(s.Conditions, apps.ConditionReconciling) != reconciling {
				t.Errorf("Reconciling is not %t", reconciling)
			}
			if meta.FindStatusCondition(s.Conditions, apps.ConditionProgressing) != nil {
				t.Error("a PodProbeMarker has the condition Progressing")
			}
		})
	}
}
