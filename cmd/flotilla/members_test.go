package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/pods"
	"github.com/flotilla-dev/flotilla/e2e/wording"
	"github.com/flotilla-dev/flotilla/hub/store"
)

// TestVerbsThatReachMembers runs the verbs on a real API server, which is the hub and its member east at once. No
// context reaches member west.
func TestVerbsThatReachMembers(t *testing.T) {
	s := newSite(t)
	raw, err := clientcmd.LoadFromFile(s.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	raw.Contexts["east"] = raw.Contexts["hub"]
	if err := clientcmd.WriteToFile(*raw, s.kubeconfig); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", s.kubeconfig)
	id, err := store.HubID(t.Context(), s.Client)
	if err != nil {
		t.Fatal(err)
	}
	placed := s.decode(cloneSet("shop"))
	placed.SetLabels(map[string]string{topology.LabelHub: id}) // as the agent of a member has it
	s.create(placed)
	labels := map[string]string{"a": "b"}
	for _, name := range []string{"web-2", "web-1"} {
		s.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: labels},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "nginx:1.27"}}}})
	}
	s.create(&corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "one"}, Reason: "Scheduled",
		Message:        "to n1",
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: "web-1"}})
	verb := func(args string) (string, error) {
		var out bytes.Buffer
		command := newCommand(&out)
		command.SetErr(&out)
		command.SetArgs(strings.Fields(args))
		err := command.ExecuteContext(t.Context())
		return out.String(), err
	}
	for args, wants := range map[string][]string{
		"get pods clone/web -n shop":         {"MEMBER   NAME    READY   STATUS    RESTARTS", "east     web-1   0/1     Pending"},
		"get pods clone/web -n shop -o name": {"east/web-1\neast/web-2\n"},
		"get pods -n shop":                   {"no context reaches member west", "web-1", "web-2"},
		"get events clone/web -n shop":       {"pod/web-1", "to n1"},
		"describe clone/web -n shop":         {"CloneSet shop/web", "east: 0 of 2 Ready", "web-1 is Pending", "to n1"},
	} {
		out, err := verb(args)
		if err != nil {
			t.Errorf("%s: %v\n%s", args, err, out)
		}
		for _, want := range wants {
			if !strings.Contains(out, want) {
				t.Errorf("%s says %s, want %s", args, out, want)
			}
		}
	}
	for args, want := range map[string]string{
		"get pods clone/none -n shop":            "there is no CloneSet shop/none",
		"get pods clone/web -n shop -C west":     "no context reaches member west",
		"get pods web -n shop":                   `"web" names no workload; write KIND/NAME`,
		"get pods clone/web -A":                  "a workload has one namespace; give -n instead of -A",
		"get pods -o xml":                        "it can be text, wide, name, json or yaml",
		"exec clone/web -n shop -- ls":           "no pod of CloneSet shop/web runs (2 exist)",
		"port-forward clone/web -n shop 80":      "no pod of CloneSet shop/web runs (2 exist)",
		"port-forward clone/web -n shop a:80":    `"a:80" names no port`,
		"top pods clone/web -n shop":             "install metrics-server there",
		"top pods pub/web -n shop":               "has no pods of its own",
		"logs clone/web -n shop -f -p":           "-f and -p exclude each other",
		"logs clone/web -n shop --color blue":    "it can be auto, always or never",
		"logs clone/web -n shop --max-streams 0": "it must be 1 or more",
	} {
		out, err := verb(args)
		if err == nil || !strings.Contains(err.Error()+out, want) {
			t.Errorf("%s: %v\n%s, want %s", args, err, out, want)
			continue
		}
		if wrong := wording.Wrong(err.Error()); wrong != "" {
			t.Errorf("%s: %v: %s", args, err, wrong)
		}
	}
	out, err := verb("get pods clone/web -n shop -o json")
	var rows []pods.Pod
	if err != nil || json.Unmarshal([]byte(out), &rows) != nil || len(rows) != 2 || rows[0].Images[0] != "nginx:1.27" {
		t.Errorf("%v: %s", err, out)
	}
}
