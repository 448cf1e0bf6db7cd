package lending

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The rollouts over 34/33/33 of part 6.4 of the specification of federations, number 7. Which cell has an odd one is
// decided by hash. Those in the order of the clusters are stories of waves.
func TestSpecRollouts(t *testing.T) {
	tests := []struct {
		reason string
		global Amounts
		update []int32 // what each cell may have updated
		breaks []int32
	}{
		{"partition 20%: 20 stay old, 7/7/6 of them in some order", Amounts{Updated: 80, Unavailable: 100},
			[]int32{27, 27, 26}, []int32{34, 33, 33}},
		{"partition 99%: one updated pod in all", Amounts{Updated: 1, Unavailable: 100}, []int32{1, 0, 0},
			[]int32{34, 33, 33}},
		{"partition 90: 30/30/30 stay old", Amounts{Updated: 10, Unavailable: 100}, []int32{4, 3, 3}, []int32{34, 33, 33}},
		{"maxUnavailable 1: one cell at a time", Amounts{Updated: 100, Unavailable: 1}, []int32{34, 33, 33},
			[]int32{1, 0, 0}},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			var update, breaks []int32
			for _, g := range Lend(tc.global, []Cell{{Key: "a", Replicas: 34}, {Key: "b", Replicas: 33},
				{Key: "c", Replicas: 33}}) {
				update, breaks = append(update, g.Granted.Updated), append(breaks, g.Granted.Unavailable)
			}
			if diff := cmp.Diff(fmt.Sprint(tc.update, tc.breaks), fmt.Sprint(update, breaks)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
