package probes

import (
	"strings"
	"testing"
	"time"

	"github.com/flotilla-dev/flotilla/apis/apps/v1alpha1"
)

func noon() time.Time { return time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC) }

func TestTrack(t *testing.T) {
	kinds := map[rune]kind{'s': succeeds, 'f': fails, 'u': unreachable, 'n': nothing, 'x': stopped}
	states := map[v1alpha1.ProbeState]string{v1alpha1.ProbeSucceeded: "S", v1alpha1.ProbeFailed: "F",
		v1alpha1.ProbeUnknown: "U"}
	for name, test := range map[string]struct {
		// outcomes one after the other; c is another container.
		outcomes string
		limits   timing
		begin    v1alpha1.ProbeState
		want     string
	}{
		"thresholds by default":              {outcomes: "sfffs", want: "SSSFS"},
		"no result yet":                      {outcomes: "nffn", want: "UUUU"},
		"failures in a row":                  {outcomes: "sffsff", want: "SSSSSS"},
		"nothing ends a row":                 {outcomes: "sffnff", want: "SSSSSS"},
		"a success threshold":                {outcomes: "sssfffss", limits: timing{succeeds: 2, fails: 3}, want: "USSSSFFS"},
		"unreachable":                        {outcomes: "suuuuf", want: "SSSUUU"},
		"unreachable for a moment":           {outcomes: "suusuu", want: "SSSSSS"},
		"unreachable and failures are apart": {outcomes: "sffuff", want: "SSSSSS"},
		"the container stops":                {outcomes: "sxs", want: "SFS"},
		"another container":                  {outcomes: "scffs", want: "SUUUS"},
		"another container after a stop":     {outcomes: "sxcs", want: "SFUS"},
		"goes on from what was reported":     {outcomes: "fffs", begin: v1alpha1.ProbeSucceeded, want: "SSFS"},
	} {
		t.Run(name, func(t *testing.T) {
			limits := test.limits
			if limits.fails == 0 {
				limits = timingOf(&v1alpha1.ContainerProbeSpec{})
			}
			one := begin(v1alpha1.ContainerProbeState{Name: "a#b", State: test.begin})
			container := "first"
			one.on(container, noon())
			var got strings.Builder
			for i, o := range test.outcomes {
				now := noon().Add(time.Duration(i) * time.Second)
				if o == 'c' {
					container += "'"
					one.on(container, now)
				} else {
					one.take(outcome{kind: kinds[o]}, limits, now)
				}
				got.WriteString(states[one.state.State])
			}
			if got.String() != test.want {
				t.Errorf("%s, want %s", got.String(), test.want)
			}
		})
	}
}

func TestTimesChangeOnlyWithWhatIsSaid(t *testing.T) {
	limits := timingOf(&v1alpha1.ContainerProbeSpec{})
	one := begin(v1alpha1.ContainerProbeState{})
	for i, step := range []struct {
		message           string
		probed, transited int
	}{{"a", 0, 0}, {"a", 0, 0}, {"b", 2, 0}, {"b", 2, 0}} {
		one.take(outcome{succeeds, step.message}, limits, noon().Add(time.Duration(i)*time.Second))
		probed, transited := one.state.LastProbeTime.Sub(noon()), one.state.LastTransitionTime.Sub(noon())
		if probed != time.Duration(step.probed)*time.Second || transited != time.Duration(step.transited)*time.Second {
			t.Errorf("step %d: probed after %s, changed after %s", i, probed, transited)
		}
	}
}

func TestTimingHasDefaults(t *testing.T) {
	if got, want := timingOf(&v1alpha1.ContainerProbeSpec{}), (timing{period: 10 * time.Second, timeout: time.Second,
		succeeds: 1, fails: 3}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	got := timingOf(&v1alpha1.ContainerProbeSpec{InitialDelaySeconds: 1, PeriodSeconds: 2, TimeoutSeconds: 3,
		SuccessThreshold: 4, FailureThreshold: 5})
	if want := (timing{time.Second, 2 * time.Second, 3 * time.Second, 4, 5}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestMessagesAreCut(t *testing.T) {
	if got := cut(strings.Repeat("é", 600)); len(got) != 1024 || !strings.HasSuffix(got, "é") {
		t.Errorf("%d bytes", len(got))
	}
	if got := cut("a\xff \n"); got != "a?" {
		t.Errorf("%q", got)
	}
}
