package podname_test

import (
	"testing"

	"github.com/flotilla-dev/flotilla/member-agent/kernel/podname"
)

func TestNames(t *testing.T) {
	tests := []struct {
		workload, pod string
		want          int32
		ok            bool
	}{
		{"web", "web-0", 0, true},
		{"web", "web-12", 12, true},
		{"web-1", "web-1-2", 2, true},
		{"web", "web-1-2", 0, false},
		{"web", "web-01", 0, false},
		{"web", "web-", 0, false},
		{"web", "web--1", 0, false},
		{"web", "web-+1", 0, false},
		{"web", "web", 0, false},
		{"web", "other-1", 0, false},
		{"web", "web-2147483648", 0, false},
		{"", "-1", 0, false},
	}
	for _, tt := range tests {
		got, ok := podname.Ordinal(tt.workload, tt.pod)
		if ok != tt.ok || ok && got != tt.want {
			t.Errorf("%s in %s: %d, %t", tt.pod, tt.workload, got, ok)
		}
		if ok && podname.New(tt.workload, got) != tt.pod {
			t.Errorf("%s comes back as %s", tt.pod, podname.New(tt.workload, got))
		}
	}
	if parent, ordinal, ok := podname.Split("data-web-3"); parent != "data-web" || ordinal != 3 || !ok {
		t.Errorf("%s %d %t", parent, ordinal, ok)
	}
}
