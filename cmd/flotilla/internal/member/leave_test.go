package member

import (
	"strings"
	"testing"
)

func TestLeaveRefuses(t *testing.T) {
	for _, tc := range []struct {
		name    string
		options leaveOptions
		known   bool
		works   int
		want    string
	}{
		{"a member without orders", leaveOptions{}, true, 0, ""},
		{"a member with orders, and no word about them", leaveOptions{}, true, 3, "--remove"},
		{"a member with orders that are to go", leaveOptions{remove: true}, true, 3, ""},
		{"a member with orders that run on", leaveOptions{orphan: true}, true, 3, ""},
		{"both", leaveOptions{remove: true, orphan: true}, true, 0, "exclude each other"},
		{"orders of a member that is gone, which are to go", leaveOptions{remove: true}, false, 3,
			"no agent removes their objects any more; use --orphan"},
		{"orders of a member that is gone, which run on", leaveOptions{orphan: true}, false, 3, ""},
		{"nothing at all", leaveOptions{remove: true}, false, 0, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := tc.options.refuse("east", tc.known, tc.works)
			if (err != nil) != (tc.want != "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("it says %v, want %q", err, tc.want)
			}
		})
	}
}

// TestHolds holds that whoever waits for a member to be empty is told by name what stays there.
func TestHolds(t *testing.T) {
	for want, workloads := range map[string][]string{
		"east still has 3 objects, and no workload has replicas there": nil,
		"east still has 3 objects; replicas there have CloneSet shop/api, CloneSet shop/web": {"CloneSet shop/api",
			"CloneSet shop/web"},
		"east still has 3 objects; replicas there have A a/a, B b/b, C c/c, D d/d, E e/e and 2 more": {"A a/a", "B b/b",
			"C c/c", "D d/d", "E e/e", "F f/f", "G g/g"},
	} {
		if got := holds("east", 3, workloads); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
