package workload

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// The status of a pass that wrote pods waits for the pass that sees them, and no longer than statusInterval.
func TestStatusWaitsForItsOwnPods(t *testing.T) {
	now := time.Unix(1000, 0)
	p := &statusRate{}
	step := func(after time.Duration, worked bool, want time.Duration) {
		t.Helper()
		now = now.Add(after)
		if got := p.hold(now, worked); got != want {
			t.Errorf("it waits %s, want %s", got, want)
		}
	}
	step(0, false, 0)
	step(0, true, statusInterval)
	step(30*time.Millisecond, false, 0) // the pass that sees them says it all
	step(0, true, statusInterval)
	step(statusInterval-time.Millisecond, true, time.Millisecond)
	step(time.Millisecond, true, 0) // every pass wrote pods: it waits no longer
	p.wrote(now)
	step(0, true, statusInterval)
}

// TestManyErrorsAreToldOnce: up to 128 requests side by side are refused with the same words.
func TestManyErrorsAreToldOnce(t *testing.T) {
	var errs []error
	for i := range 100 {
		errs = append(errs, fmt.Errorf("create pod shop/web-*: exceeded quota %d", i%2))
	}
	if got, want := Text(errors.Join(errs...)), "create pod shop/web-*: exceeded quota 0\ncreate pod shop/web-*: "+
		"exceeded quota 1"; got != want {
		t.Errorf("told %q, want %q", got, want)
	}
	for i := range 100 {
		errs[i] = fmt.Errorf("patch pod shop/web-%d: refused", i)
	}
	if got := Text(errors.Join(errs...)); strings.Count(got, "refused") != shownErrors ||
		!strings.HasSuffix(got, "\nand 97 more") {
		t.Errorf("told %q", got)
	}
	if got := Note(errors.New(strings.Repeat("ä", longestNote))); !utf8.ValidString(got) || len(got) > 1024 {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}
