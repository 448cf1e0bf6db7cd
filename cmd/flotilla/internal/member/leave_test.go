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
		{"orders of a member that is gone, which are to go", leaveOptions{remove: true}, false, 3, "no agent removes their objects any more; use --orphan"},
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
