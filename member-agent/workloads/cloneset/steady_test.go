package cloneset_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

func (w *world) revisions(name string) []appsv1.ControllerRevision {
	w.Helper()
	cs := w.get(name)
	var list appsv1.ControllerRevisionList
	w.must(w.List(w.Context(), &list, client.InNamespace("default")))
	var out []appsv1.ControllerRevision
	for _, revision := range list.Items {
		if metav1.IsControlledBy(&revision, cs) {
			out = append(out, revision)
		}
	}
	return out
}

// writes returns the mutating requests of the controller in the audit log, after the first skip ones.
func (w *world) writes(skip int) []string {
	w.Helper()
	file, err := os.Open(w.cluster.AuditLog())
	w.must(err)
	defer file.Close()
	var out []string
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var entry struct {
			Verb, RequestURI, UserAgent string
		}
		if json.Unmarshal(lines.Bytes(), &entry) == nil && strings.HasPrefix(entry.UserAgent, controllerAgent) {
			out = append(out, entry.Verb+" "+entry.RequestURI)
		}
	}
	return out[min(skip, len(out)):]
}

func steady(w *world) {
	var list v1beta1.CloneSetList
	w.must(w.List(w.Context(), &list))
	for _, cs := range list.Items {
		w.settle(cs.Name)
	}
	w.writesNothing()
}

// writesNothing fails if the controller does not come to rest: what writes at rest does so again and again, within
// seconds. The last events are written, and the audit log is, a little later.
func (w *world) writesNothing() {
	w.Helper()
	w.eventually("a time without a write", func() string {
		before := len(w.writes(0))
		if before == 0 {
			w.Fatal("the audit log has no line of the controller: the test sees nothing")
		}
		select {
		case <-time.After(quiet):
		case <-w.Context().Done():
		}
		if more := w.writes(before); len(more) > 0 {
			return fmt.Sprintf("%d writes in a steady state, the first: %s", len(more), more[0])
		}
		return ""
	})
}
