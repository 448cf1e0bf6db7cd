package waves

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"reflect"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

const (
	// defaultFailureLimit holds where the schema's default was not applied.
	defaultFailureLimit = 3
	// maxSays is how many characters of what was found are kept.
	maxSays = 500
	// maxJobPrefix is how much of a check's name goes into that of its Job: with the hash behind it, a name of pods fits
	// into a label.
	maxJobPrefix = 40
)

// Ask is a question by HTTP. The same question of the same wave and update has the same id.
type Ask struct {
	ID   string
	HTTP *topology.WaveHTTP
}

// Answer is what was answered last to a question.
type Answer struct {
	// At is when it came.
	At time.Time
	// Unmet says why the check does not hold, "" where it does; Says what was answered.
	Unmet, Says string
	// Failures is how many times in a row it did not hold.
	Failures int32
}

// RunKey names a Job in a member.
type RunKey struct{ Cluster, Job string }

// Run is how a Job stands in a member. With none of the three it is under way.
type Run struct {
	Succeeded, Failed bool
	// Refused: the member does not have it.
	Refused bool
	// Says why it failed, or why the member does not have it.
	Says string
}

// finding is what there is to say of a check.
type finding struct {
	// unmet says why it does not hold, waits what it waits for; both "" where it holds.
	unmet, waits string
	// over: it failed for good. patient: it has failed once its patience is over.
	over, patient bool
	// says, at and failures are what is told of it.
	says     string
	at       *metav1.Time
	failures int32
}

// check looks at the checks of a wave. It returns what the first that does not hold says, "" where all do, and whether
// the wave has failed for one.
func (w *walk) check(wave *topology.Wave, ceiling []int32) (unmet string, over bool) {
	before := w.p.Checks
	w.p.Checks = nil
	w.forgetJobs(wave)
	var failed string
	for i := range wave.Checks {
		c := &wave.Checks[i]
		f := w.looked(c, wave, ceiling)
		text := ""
		switch {
		case f.unmet != "":
			text = fmt.Sprintf("check %q does not hold: %s", c.Name, f.unmet)
		case f.waits != "":
			text = fmt.Sprintf("check %q %s", c.Name, f.waits)
		}
		if unmet == "" {
			unmet = text
		}
		if f.waits == "" && w.note(before, c, &f) && failed == "" {
			failed = text
		}
	}
	switch {
	case !slices.ContainsFunc(w.p.Checks, func(c topology.WaveChecked) bool { return !c.Holds }):
		w.p.Unmet = nil
	case w.p.Unmet == nil || w.Heard.After(w.p.Unmet.Time):
		w.p.Unmet = &w.at // nobody looked before
	}
	if failed != "" {
		return failed, true
	}
	return unmet, false
}

// looked returns what there is to say of one check.
func (w *walk) looked(c *topology.WaveCheck, wave *topology.Wave, ceiling []int32) finding {
	switch {
	case c.HTTP != nil:
		return w.answered(c)
	case c.Job != nil:
		return w.ran(c, wave, ceiling)
	}
	why := w.Check(*c)
	return finding{unmet: why, says: why, patient: true}
}

// note remembers what was found of a check, and tells whether the wave has failed for it.
func (w *walk) note(before []topology.WaveChecked, c *topology.WaveCheck, f *finding) bool {
	now := topology.WaveChecked{
		Name:     c.Name,
		Holds:    f.unmet == "",
		Since:    w.at,
		Says:     short(f.says),
		At:       f.at,
		Failures: f.failures,
	}
	if i := slices.IndexFunc(before, func(b topology.WaveChecked) bool { return b.Name == c.Name }); i >= 0 &&
		before[i].Holds == now.Holds {
		last := before[i]
		if now.Holds || !w.Heard.After(last.Since.Time) { // else nobody looked before
			now.Since = last.Since
		}
		if now.Holds {
			now.Says, now.At = last.Says, last.At // the same again is not written
		}
	}
	w.p.Checks = append(w.p.Checks, now)
	return f.over || f.patient && !now.Holds && w.Now.Sub(now.Since.Time) > durationOf(c.Patience, defaultPatience)
}

// answered looks at a check by HTTP, and sees to it that it is asked.
func (w *walk) answered(c *topology.WaveCheck) finding {
	ask := Ask{ID: fmt.Sprintf("%s/%d/%s/%s", w.Revision, w.Sequence, w.p.Name, c.Name), HTTP: c.HTTP}
	w.asks = append(w.asks, ask)
	answer, ok := w.Answers[ask.ID]
	if !ok || answer.At.Before(w.p.Settled.Time) {
		return finding{waits: "has no answer yet"}
	}
	limit := int32(defaultFailureLimit)
	if c.HTTP.FailureLimit != nil {
		limit = *c.HTTP.FailureLimit
	}
	at := metav1.NewTime(answer.At.Truncate(time.Second))
	f := finding{says: answer.Says, at: &at, failures: answer.Failures}
	if answer.Unmet == "" {
		return f
	}
	f.over = answer.Failures > limit
	f.unmet = fmt.Sprintf(
		"%s, at %s, for the %s time in a row (failureLimit %d)",
		answer.Unmet,
		stamp(at),
		ordinal(answer.Failures),
		limit,
	)
	return f
}

// ran looks at the Job of a check, and has it made where there is none yet.
func (w *walk) ran(c *topology.WaveCheck, wave *topology.Wave, ceiling []int32) finding {
	i := slices.IndexFunc(w.p.Jobs, func(r topology.WaveRun) bool { return r.Check == c.Name })
	if i < 0 {
		w.p.Jobs = append(w.p.Jobs, topology.WaveRun{
			Check: c.Name, Name: w.jobName(c), Clusters: w.clustersOf(wave, ceiling), Template: *c.Job.Template.DeepCopy(),
		})
		i = len(w.p.Jobs) - 1
	}
	job := &w.p.Jobs[i]
	var running, refused []string
	why := ""
	for _, cluster := range job.Clusters {
		run := w.Runs[RunKey{cluster, job.Name}]
		switch {
		case run.Succeeded:
		case run.Failed:
			return finding{
				over:  true,
				unmet: fmt.Sprintf("Job %s failed in %s: %s", job.Name, cluster, run.Says),
				says:  fmt.Sprintf("failed in %s: %s", cluster, run.Says),
			}
		case w.lost(cluster):
		case run.Refused:
			if why == "" {
				why = run.Says
			}
			refused = append(refused, cluster)
		default:
			running = append(running, cluster)
		}
	}
	switch {
	case len(refused) > 0:
		text := fmt.Sprintf("%s does not take Job %s: %s", strings.Join(refused, ", "), job.Name, why)
		return finding{unmet: text, says: text, patient: true}
	case len(running) > 0:
		return finding{waits: fmt.Sprintf("has its Job %s under way in %s", job.Name, strings.Join(running, ", "))}
	}
	return finding{says: fmt.Sprintf("Job %s succeeded in %s", job.Name, strings.Join(job.Clusters, ", "))}
}

// forgetJobs forgets the Jobs whose checks are gone or want others now.
func (w *walk) forgetJobs(wave *topology.Wave) {
	w.p.Jobs = slices.DeleteFunc(w.p.Jobs, func(job topology.WaveRun) bool {
		return !slices.ContainsFunc(wave.Checks, func(c topology.WaveCheck) bool {
			return c.Name == job.Check && c.Job != nil && sameJSON(c.Job.Template.Raw, job.Template.Raw)
		})
	})
	if len(w.p.Jobs) == 0 {
		w.p.Jobs = nil
	}
}

// sameJSON compares bytes first: an API server gives back what it was given, unless it orders the keys in its own way.
func sameJSON(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// jobName is another one for each time that a check has a Job made.
func (w *walk) jobName(c *topology.WaveCheck) string {
	hash := fnv.New64a()
	// Writes to a hash never fail.
	_, _ = fmt.Fprintf(hash, "%s/%d/%s/%s/%d/", w.Revision, w.Sequence, w.p.Name, c.Name, w.at.Unix())
	_, _ = hash.Write(c.Job.Template.Raw)
	head := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(w.Workload+"-"+c.Name))
	head = strings.Trim(head[:min(len(head), maxJobPrefix)], "-")
	return strings.TrimLeft(fmt.Sprintf("%s-%016x", head, hash.Sum64()), "-")
}

// clustersOf are the members of a wave that have updated pods, sorted.
func (w *walk) clustersOf(wave *topology.Wave, ceiling []int32) []string {
	var clusters []string
	for i := range w.Places {
		if p := &w.Places[i]; !p.Lost && w.reaches(wave, ceiling, i) {
			clusters = append(clusters, p.Cluster)
		}
	}
	slices.Sort(clusters)
	return slices.Compact(clusters)
}

// lost tells whether a member is given up, or has no part in the workload any more.
func (w *walk) lost(cluster string) bool {
	return !slices.ContainsFunc(w.Places, func(p Place) bool { return p.Cluster == cluster && !p.Lost })
}

// short cuts what is told of a check.
func short(text string) string {
	if runes := []rune(text); len(runes) > maxSays {
		return string(runes[:maxSays]) + " …"
	}
	return text
}

func ordinal(n int32) string {
	suffix := "th"
	if n/10%10 != 1 {
		switch n % 10 {
		case 1:
			suffix = "st"
		case 2:
			suffix = "nd"
		case 3:
			suffix = "rd"
		}
	}
	return fmt.Sprintf("%d%s", n, suffix)
}
