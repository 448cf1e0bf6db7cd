package link

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testclock "k8s.io/utils/clock/testing"
)

func TestContactSaysLittle(t *testing.T) {
	var lines []string
	clock := testclock.NewFakePassiveClock(time.Unix(0, 0))
	log := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
	l := &Link{contact: contact{clock: clock, log: log}}
	expect := func(step string, want ...string) {
		t.Helper()
		if len(lines) != len(want) {
			t.Fatalf("%s: %d lines, want %d: %q", step, len(lines), len(want), lines)
		}
		for i, line := range lines {
			if !strings.Contains(line, want[i]) {
				t.Errorf("%s: line %q does not say %q", step, line, want[i])
			}
		}
		lines = nil
	}
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "works"}, "", errors.New("no rule"))
	l.contact.worked()
	expect("all is well")
	l.heardOf(errors.New("connection refused"))
	l.heardOf(errors.New("connection refused"))
	expect("the hub goes", "does not answer")
	clock.SetTime(time.Unix(0, 0).Add(repeatEvery))
	l.heardOf(errors.New("connection refused"))
	expect("it stays away", "does not answer")
	l.contact.worked()
	l.contact.worked()
	expect("it is back", "answers again")
	l.heardOf(forbidden)
	l.heardOf(forbidden)
	l.contact.worked()
	expect("an answer that is a refusal is no loss of contact", "refuses")
}
