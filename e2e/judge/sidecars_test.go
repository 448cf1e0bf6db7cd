package judge

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// TestSidecars: no more pods get a new image than the partition lets, and no more are unavailable because of updates
// than may be.
func TestSidecars(t *testing.T) {
	start := time.Unix(1000, 0)
	// A step is "<second> <cluster> <pod> <image> <ready|not|gone>", "<second> hub <image> <partition> <unavailable>", or
	// "<second> <cluster> cut".
	for _, tt := range []struct {
		name, steps, want string
	}{
		{"one after another", "1 hub v2 1 1|2 east a v2 not|3 east a v2 ready|4 west c v2 not|5 west c v2 ready", ""},
		{"two at a time", "1 hub v2 0 1|2 east a v2 not|3 west c v2 not|9 west c v2 ready",
			"2 pods are unavailable because of updates of their sidecars, at most 1 may be"},
		{"seen in another order", "1 hub v2 0 1|2 east a v2 not|3 west c v2 not|3 east a v2 ready|9 west c v2 ready", ""},
		{"one that was not ready", "1 hub v2 0 1|1 east a v1 not|2 east a v2 not|3 west c v2 not|9 west c v2 ready", ""},
		{"more than the partition lets", "1 hub v2 2 3|2 east a v2 not|3 east b v2 not|9 east b v2 ready",
			"2 pods have v2: with partition 2 at most 1 of 3 may have it"},
		{"back to an image that pods have", "1 hub v2 2 3|2 east a v2 not|3 hub v1 2 3|4 east a v1 not", ""},
		{"a member that was cut off", "1 hub v2 0 1|1 east cut|2 east a v2 not|3 west c v2 not|9 west c v2 ready", ""},
		{"a pod that is gone", "1 hub v2 0 1|2 east a v2 not|3 east a v2 gone|4 west c v2 not|9 west c v2 ready", ""},
	} {
		var log []Entry
		pod := func(at time.Time, cluster, name, image, state string) {
			log = append(log, Entry{At: at, Cluster: cluster, Pod: &Pod{UID: types.UID(name), Name: name, Sidecar: image,
				Active: state != "gone", Gone: state == "gone", Ready: state == "ready", ReadySince: at}})
		}
		for _, name := range []string{"a", "b", "c"} {
			pod(start, map[string]string{"a": "east", "b": "east", "c": "west"}[name], name, "v1", "ready")
		}
		for i, step := range strings.Split(tt.steps, "|") {
			var second int
			words := strings.Fields(step)
			if _, err := fmt.Sscan(words[0], &second); err != nil {
				t.Fatal(err)
			}
			at := start.Add(time.Duration(second) * time.Second)
			switch {
			case words[1] == "hub":
				s := &Sidecars{Name: "logs", Generation: int64(i + 1), Image: words[2]}
				if _, err := fmt.Sscan(words[3]+" "+words[4], &s.Partition, &s.Unavailable); err != nil {
					t.Fatal(err)
				}
				log = append(log, Entry{At: at, Cluster: "hub", Sidecars: s})
			case words[2] == "cut":
				log = append(log, Entry{At: at, Cluster: words[1], Link: &Link{Cut: true}})
			default:
				pod(at, words[1], words[2], words[3], words[4])
			}
		}
		got := ""
		for _, v := range Check(log, Deletions{}).Violations {
			got += v.What
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
