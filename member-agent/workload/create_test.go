package workload

import (
	"strings"
	"testing"
)

func TestGeneratedName(t *testing.T) {
	short, long := generatedName("log"), generatedName(strings.Repeat("long", 20))
	if !strings.HasPrefix(short, "log-") || len(short) != len("log-")+randomInName || short == generatedName("log") {
		t.Errorf("name %s", short)
	}
	if len(long) != 63 || !strings.HasPrefix(long, "longlong") {
		t.Errorf("name %s has %d characters", long, len(long))
	}
}
