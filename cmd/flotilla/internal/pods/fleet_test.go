package pods

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/wording"
)

func TestCandidates(t *testing.T) {
	contexts := func(member string) bool { return member == "east" || member == "south" }
	for _, test := range []struct {
		name        string
		only, named []string
		hub         *hubView
		want        string
	}{
		{"the user names members", []string{"west", "east"}, []string{"north"}, &hubView{members: []string{"south"}},
			"east! west!"},
		{"the hub does not answer", nil, []string{"north"}, nil, "north!"},
		{"the user may read nothing on the hub", nil, nil, &hubView{}, ""},
		{"no workload: all members", nil, nil, &hubView{members: []string{"west", "east"}}, "east! west!"},
		{"a workload: its members, and others that a context reaches", nil, nil,
			&hubView{members: []string{"west", "east", "south", "north"}, placed: []string{"west", "east"}},
			"east! south west!"},
		{"a workload that is not placed", nil, nil,
			&hubView{members: []string{"west", "east"}, placed: []string{}}, "east"},
		{"the user may not list members", nil, nil, &hubView{placed: []string{"west"}}, "west!"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			for _, c := range candidates(test.only, test.named, test.hub, contexts) {
				got = append(got, c.name+strings.Repeat("!", map[bool]int{true: 1}[c.expected]))
			}
			if diff := cmp.Diff(test.want, strings.Join(got, " ")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestMembersThatAreNotReached holds that each has a line, at most ten, and that the verb fails only where nothing was
// reached.
func TestMembersThatAreNotReached(t *testing.T) {
	var failures []error
	for i := range 13 {
		failures = append(failures, fmt.Errorf("member m%d does not answer", i))
	}
	out := &bytes.Buffer{}
	f := &fleet{notes: &notes{out: out}}
	if err := f.report(t.Context(), 1, failures); err != nil || strings.Count(out.String(), "\n") != 11 ||
		!strings.Contains(out.String(), "and 3 more members were not reached") {
		t.Errorf("%v: %s", err, out)
	}
	if err := f.report(t.Context(), 0, failures[:2]); err == nil || err.Error() != "none of 2 members was reached" {
		t.Errorf("says %v", err)
	}
	out.Reset()
	if err := f.report(t.Context(), 0, failures[:1]); !errors.Is(err, failures[0]) || out.Len() > 0 {
		t.Errorf("says %v, %s", err, out)
	}
}

// TestPodsOfJobs holds how pods without a selector are found.
func TestPodsOfJobs(t *testing.T) {
	job := func(name, uid, owner string) *apps.BroadcastJob {
		return &apps.BroadcastJob{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: uid1(uid),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps.kruise.io/v1beta1", Kind: "AdvancedCronJob",
				Name: owner, UID: uid1(owner), Controller: new(true)}}}}
	}
	cron := &apps.AdvancedCronJob{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "nightly", UID: "nightly"}}
	m := &member{t: t, pods: []corev1.Pod{pod("api-1", corev1.PodRunning, "main")}}
	r := m.reach(cron, job("one", "uid-1", "nightly"), job("two", "uid-2", "nightly"), job("other", "uid-3", "weekly"))
	for argument, want := range map[string]string{
		"acj/nightly": "broadcastjob-controller-uid in (uid-1,uid-2)",
		"bcj/other":   "broadcastjob-controller-uid=uid-3",
	} {
		got, err := r.selectors(t.Context(), targetFor(t, argument))
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %q, %v", argument, got, err)
		}
	}
}

// TestSentencesOfMembers holds what is said where a member refuses, or does not answer.
func TestSentencesOfMembers(t *testing.T) {
	m := &member{t: t, refused: "/pods"}
	r := m.reach(cloneSet())
	_, err := r.pods(t.Context(), targetFor(t, "clone/api"))
	expectSentence(t, err, "you may not list pods in namespace shop in member east: ask for that right there, for the "+
		"user of the context east")
	away, err := newReached("west", "shop", "kind-west", configOf("http://127.0.0.1:1"), memberPatience)
	if err != nil {
		t.Fatal(err)
	}
	_, err = away.pods(t.Context(), targetFor(t, "pod/api-1"))
	expectSentence(t, err, "member west does not answer (dial tcp 127.0.0.1:1: connect: connection refused): look at it "+
		"with kubectl --context kind-west version")
	_, err = away.pods(t.Context(), targetFor(t, "clone/api"))
	expectSentence(t, err, "member west does not answer")
}

func expectSentence(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("says %v, want %s", err, want)
		return
	}
	if wrong := wording.Wrong(err.Error()); wrong != "" {
		t.Errorf("%v: %s", err, wrong)
	}
}

func TestPick(t *testing.T) {
	ready := pod("c", corev1.PodRunning)
	ready.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	running, pending := pod("b", corev1.PodRunning), pod("a", corev1.PodPending)
	gone := pod("0", corev1.PodRunning)
	gone.DeletionTimestamp = &metav1.Time{}
	east, west := &reached{name: "east"}, &reached{name: "west"}
	in := func(member *reached, pods ...corev1.Pod) answer[[]corev1.Pod] {
		return answer[[]corev1.Pod]{member: member, value: pods}
	}
	for _, test := range []struct {
		found []answer[[]corev1.Pod]
		want  string
	}{
		{[]answer[[]corev1.Pod]{in(east, gone, pending, running), in(west, running, ready)}, "west/c of 5"},
		{[]answer[[]corev1.Pod]{in(east, pending), in(west, running)}, "west/b of 2"},
		{[]answer[[]corev1.Pod]{in(east, pending, gone)}, "none of 2"},
	} {
		found, all := pick(test.found)
		got := fmt.Sprintf("none of %d", all)
		if found != nil {
			got = fmt.Sprintf("%s/%s of %d", found.member.name, found.pod.Name, all)
		}
		if got != test.want {
			t.Errorf("%s, want %s", got, test.want)
		}
	}
}

// TestChooseSaysWhichPod holds that exec and port-forward say which pod they use, and what to do where none runs.
func TestChooseSaysWhichPod(t *testing.T) {
	ready := pod("api-2", corev1.PodRunning, "main")
	ready.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	east := &member{t: t, pods: []corev1.Pod{pod("api-1", corev1.PodPending, "main")}}
	west := &member{t: t, pods: []corev1.Pod{ready}}
	talk := &buffer{}
	f := &fleet{notes: &notes{out: talk},
		members: []*reached{east.reachAs("east", cloneSet()), west.reachAs("west", cloneSet())}}
	found, err := f.choose(t.Context(), targetFor(t, "clone/api"), &options{})
	if err != nil || found.pod.Name != "api-2" || found.member.name != "west" ||
		talk.String() != "Using pod api-2 in member west, the first Ready one of 2\n" {
		t.Errorf("%+v, %v: %s", found, err, talk)
	}
	f.members = f.members[:1]
	_, err = f.choose(t.Context(), targetFor(t, "clone/api"), &options{})
	expectSentence(t, err, "no pod of CloneSet shop/api runs (1 exist): flotilla get pods clone/api shows them")
	_, err = f.choose(t.Context(), targetFor(t, "pod/api-1"), &options{})
	expectSentence(t, err, "pod api-1 in member east is Pending: it has no running container")
}

func TestPorts(t *testing.T) {
	p := pod("api-1", corev1.PodRunning, "main")
	p.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}}
	for asked, want := range map[string]string{
		"80": "80:80", "8000:80": "8000:80", ":http": ":8080", "http": "8080:8080", "90:http": "90:8080",
		"grpc": `pod api-1 has no port "grpc"; it has http`, "0": `pod api-1 has no port "0"`,
		"a:80": `"a:80" names no port; write LOCAL:REMOTE`, "80:": `"80:" names no port`, "1:2:3": "names no port",
		"70000:80": "names no port",
	} {
		var got []string
		err := checkPort(asked)
		if err == nil {
			got, err = portsOf(&p, []string{asked})
		}
		text := strings.Join(got, " ")
		if err != nil {
			text = err.Error()
		}
		if !strings.Contains(text, want) {
			t.Errorf("%s: %s, want %s", asked, text, want)
		}
	}
}

func TestUsage(t *testing.T) {
	east := &member{t: t, metrics: `{"items":[{"metadata":{"name":"api-1","namespace":"shop"},"containers":[
{"usage":{"cpu":"250m","memory":"64Mi"}},{"usage":{"cpu":"1","memory":"1Gi"}}]}]}`}
	west := &member{t: t}
	out := &bytes.Buffer{}
	f := &fleet{notes: &notes{out: out},
		members: []*reached{east.reachAs("east", cloneSet()), west.reachAs("west", cloneSet())}}
	rows, err := f.usage(t.Context(), targetFor(t, "clone/api"), &options{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("MEMBER\tNAME\tCPU\tMEMORY\neast\tapi-1\t1250m\t1088Mi\n", usageText(rows)); diff != "" {
		t.Error(diff)
	}
	want := "member west has no metrics.k8s.io: install metrics-server there to measure its pods\n"
	if out.String() != want {
		t.Errorf("says %s", out)
	}
}
