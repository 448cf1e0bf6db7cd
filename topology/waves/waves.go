package waves

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// checkEvery is how often checks are looked at: what they read changes without an event that leads here.
const checkEvery = 10 * time.Second

// defaultPatience holds where the schema's default was not applied.
const defaultPatience = time.Minute

const (
	// newsAge is how old the last news of a member may be when it is found not to be heard of.
	newsAge = topology.LeaseDuration
	// listens is how long a hub that was away waits for reports before it finds a wave late: after
	// it, members that are cut off are known.
	listens = 2 * newsAge
	// newsEvery is how often it is looked for news that a wave waits for: an agent is heard every
	// ten seconds, and nothing else tells.
	newsEvery = 2 * time.Second
)

// Place is a subset in a cluster.
type Place struct {
	Subset, Cluster string
	// Zones that the pods of the place may lie in. Labels of the MemberCluster.
	Zones  []string
	Labels map[string]string
	// Replicas that the division gives the place.
	Replicas int32
	// Reserved is how many of its pods the place may have updated already.
	Reserved int32
	// Updated is how many pods are updated and available, as last reported under the newest template; 0 without a report.
	Updated int32
	// Lost: its member is given up: it does not count. Unheard: there is no news of its member, and it may come back.
	Lost, Unheard bool
	// News is when its member was heard last, zero for never.
	News time.Time
	// Last: batches of a job take its nodes after those of all other places.
	Last bool
}

// Facts are what a decision about waves depends on.
type Facts struct {
	// Rollout is the policy's. Without waves in it there is no decision.
	Rollout *topology.Rollout
	// Workload is its name, which those of Jobs begin with.
	Workload string
	// Revision of the newest template, and the sequence of the order that brought it. Begins: this is the first decision
	// about it, and there was another one before, Leaves; it has no sequence yet.
	Revision string
	Sequence int64
	Begins   bool
	Leaves   string
	// Template is what a rollback would give to members in its stead: that of Leaves. Nil where none can be made.
	Template *runtime.RawExtension
	// RolledBack: the template that failed does not run any more; members have that of before.
	RolledBack bool
	// Last is how far the waves were, nil where the update has none.
	Last *topology.WaveProgress
	// Places are those with pods, and those of members that the policy selects and that have none.
	Places []Place
	// Allowed is how many pods of each subset may be updated as the workload says.
	Allowed map[string]int32
	// Batches divide the nodes of a job; nil for none. They hold in place of Rollout.
	Batches *Batches
	// Paused: the workload is paused. Halted says why nothing of it moves now, "" where it may.
	Paused bool
	Halted string
	// Word is what a person said of the waves: [ApproveWord] or [RetryWord], or anything else, which says nothing.
	Word string
	// Check returns why a check by expression does not hold, "" where it does. It is asked only about the
	// wave under way, once that is settled.
	Check func(topology.WaveCheck) string
	// Answers are the last ones of checks by HTTP, by the id of their question. Runs are how the Jobs of checks stand.
	Answers map[string]Answer
	Runs    map[RunKey]Run
	// Now is the time, Heard since when the hub is in contact with its API server; zero where that was always so.
	Now, Heard time.Time
}

// Decision is what may be updated now.
type Decision struct {
	// Progress is what is to be remembered, nil where the update has no waves.
	Progress *topology.WaveProgress
	// Ceilings are the most pods that may be updated of each of Facts.Places, nil for no bound.
	Ceilings []int32
	// Limits are the most pods that may be updated of each subset, wherever they are; nil for no bound. Steps have them
	// in place of Ceilings.
	Limits map[string]int32
	// Stop: no pod is to be updated at all, since the wave has failed.
	Stop bool
	// Waits says what the wave under way waits for, as a sentence without figures that move; "" when the waves are over.
	Waits string
	// Asks are the questions by HTTP that are to be asked now, again and again until they are asked for no more.
	Asks []Ask
	// Again is when to look again though nothing happened, 0 for never.
	Again time.Duration
}

// ApproveWord is what a person says to let the rollout go on after the wave under way, of the update with this revision
// that came with the order of this sequence. What was said before it failed does not approve the failure, and what was
// said of an update approves none that brings the same template later.
func ApproveWord(revision string, sequence int64, p *topology.WaveProgress) string {
	return word("approve", revision, sequence, p)
}

// RetryWord is what a person says to have a failed wave tried again; "" where none has failed.
func RetryWord(revision string, sequence int64, p *topology.WaveProgress) string {
	if p.Failed == nil {
		return ""
	}
	return word("retry", revision, sequence, p)
}

func word(says, revision string, sequence int64, p *topology.WaveProgress) string {
	text := fmt.Sprintf("%s/%s/%d/%s", says, revision, sequence, p.Name)
	if p.Failed != nil {
		text += fmt.Sprintf("/%d", p.Failed.At.Unix())
	}
	return text
}

// Decide says how far the waves are and what may be updated. The package comment has the rules.
func Decide(f Facts) Decision {
	if f.RolledBack {
		p := f.Last.DeepCopy()
		waits := fmt.Sprintf("failed at %s and was rolled back: %s", stamp(p.Failed.At), p.Failed.Message)
		return Decision{Progress: p, Waits: sentence(p, waits)}
	}
	if f.Batches != nil {
		return decideBatches(f)
	}
	steps := f.hasSteps()
	if steps {
		f.Rollout = stepsAsWaves(f.Rollout, f.Places)
	}
	if !f.hasWaves() || f.reverted() {
		return Decision{}
	}
	list := f.Rollout.Waves
	w := walk{Facts: f, at: metav1.NewTime(f.Now.Truncate(time.Second))}
	if f.Begins {
		w.p = &topology.WaveProgress{Number: 1, Since: w.at}
		w.p.From, w.p.Template = f.leaves()
	} else {
		w.p = f.Last.DeepCopy()
		w.find()
	}
	w.p.Of, w.p.Steps = int32(len(list)), steps
	for int(w.p.Number) <= len(list) && w.passes(&list[w.p.Number-1], ceilings(list[:w.p.Number], w.Places)) {
		w.p = &topology.WaveProgress{
			Number: w.p.Number + 1, Of: w.p.Of, Steps: steps, Since: w.at, From: w.p.From, Template: w.p.Template,
		}
	}
	if int(w.p.Number) > len(list) {
		w.p.Template = nil
		return Decision{Progress: w.p}
	}
	d := Decision{Progress: w.p, Stop: w.p.Failed != nil, Asks: w.asks, Again: w.again, Waits: sentence(w.p, w.waits)}
	if d.Ceilings = ceilings(list[:w.p.Number], f.Places); steps {
		d.Ceilings, d.Limits = nil, limits(f.Places, d.Ceilings)
	}
	return d
}

// hasWaves reports whether the update goes in waves.
func (f *Facts) hasWaves() bool {
	return f.Rollout.Strategy == topology.RolloutWaves && len(f.Rollout.Waves) > 0 && (f.Begins || f.Last != nil)
}

// reverted reports whether the user returned to the previous template: during the waves, after them, or after a
// rollback.
func (f *Facts) reverted() bool {
	switch {
	case f.Last == nil:
		return false
	case f.Begins:
		return f.Last.From == f.Revision
	}
	return f.Last.RolledBack != "" && f.Last.RolledBack != f.Revision
}

func sentence(p *topology.WaveProgress, waits string) string {
	if p.Limit > 0 {
		return fmt.Sprintf("batch %d of %d, since %s, %s", p.Number, p.Of, stamp(p.Since), waits)
	}
	if p.Steps {
		return fmt.Sprintf("step %d of %d (partition %s), since %s, %s", p.Number, p.Of, p.Name, stamp(p.Since), waits)
	}
	return fmt.Sprintf("wave %d of %d (%s), since %s, %s", p.Number, p.Of, p.Name, stamp(p.Since), waits)
}

// leaves returns the revision that an update which begins leaves, and its template where a rollback is wanted. Where
// the waves of the one before are not over, most pods have what that one was to replace.
func (f *Facts) leaves() (string, *runtime.RawExtension) {
	from, template := f.Leaves, f.Template
	if f.Last != nil && f.Last.Number <= f.Last.Of && f.Last.From != "" {
		from, template = f.Last.From, f.Last.Template
	}
	if f.Rollout.OnFailure != topology.RolloutRollback {
		template = nil
	}
	return from, template
}

// walk goes from wave to wave.
type walk struct {
	Facts
	at    metav1.Time
	p     *topology.WaveProgress
	waits string
	asks  []Ask
	again time.Duration
}

// find finds the wave under way again, by its name or else by its number.
func (w *walk) find() {
	list := w.Rollout.Waves
	if w.p.Number > w.p.Of {
		w.p.Number = int32(len(list)) + 1 // they were over, and are over
		return
	}
	if i := slices.IndexFunc(list, func(wave topology.Wave) bool { return wave.Name == w.p.Name }); i >= 0 {
		w.p.Number = int32(i) + 1
		return
	}
	w.p.Number = max(1, min(w.p.Number, int32(len(list)))) // somebody may have written a number that there is not
}

// passes reports whether the current wave is over. If not, it records what the wave waits for.
func (w *walk) passes(wave *topology.Wave, ceiling []int32) bool {
	w.p.Name, w.asks, w.again = wave.Name, nil, 0
	approved := w.Word == ApproveWord(w.Revision, w.Sequence, w.p)
	w.retry()
	held := w.holds(ceiling)
	switch {
	case w.p.Failed != nil && approved:
		return true
	case w.p.Failed != nil:
		return w.wait("failed at %s: %s", stamp(w.p.Failed.At), w.p.Failed.Message)
	case held != "":
		w.p.Held = true
		return w.wait("waits: %s", held)
	case w.p.Held:
		// What it was held for is over: its times begin anew.
		w.p.Held, w.p.Since = false, w.at
		w.unsettle()
	}
	pods, selected, lost := w.look(wave, ceiling)
	switch {
	case selected == 0:
		return approved || w.wait("selects no part of the workload: correct the policy's wave, or approve it")
	case pods == 0:
		return true
	case lost == selected:
		w.unsettle()
		return approved ||
			w.wait("waits for its members, which are all lost: it goes on when one is back, or when it is approved")
	case !w.settled(wave, ceiling):
		return w.awaitPods(wave, pods)
	}
	if w.p.Settled == nil {
		w.p.Settled = &w.at
	}
	unheard := w.unheard(wave, ceiling)
	w.watch(wave, unheard != "", w.unproven(wave, ceiling) == "")
	switch {
	case approved:
		return true
	case unheard != "":
		return w.wait("waits for a report of %s, which is unreachable: its time does not count meanwhile", unheard)
	}
	return w.proven(wave, ceiling)
}

// retry starts a failed wave again if a user asked for that.
func (w *walk) retry() {
	if w.p.Failed != nil && w.Word == RetryWord(w.Revision, w.Sequence, w.p) {
		w.p.Failed, w.p.RolledBack, w.p.Since = nil, "", w.at
		w.unsettle()
	}
}

// wait notes what the wave waits for.
func (w *walk) wait(format string, args ...any) bool {
	w.waits = fmt.Sprintf(format, args...)
	return false
}

// fail notes that the wave has failed.
func (w *walk) fail(format string, args ...any) bool {
	message := fmt.Sprintf(format, args...)
	if runes := []rune(message); len(runes) > maxMessage {
		message = string(runes[:maxMessage]) + " …"
	}
	w.p.Failed, w.asks, w.again = &topology.WaveFailed{At: w.at, Message: message}, nil, 0
	if w.p.Template != nil {
		w.p.RolledBack = w.Revision
	}
	return w.wait("failed at %s: %s", stamp(w.at), message)
}

// maxMessage is how many characters of a failure are kept: an expression and what it said fit.
const maxMessage = 1000

// holds says why nothing of the wave moves now, "" where it may.
func (w *walk) holds(ceiling []int32) string {
	switch {
	case w.Halted != "":
		return w.Halted
	case w.Paused:
		return "the workload is paused"
	}
	wanted := map[string]int32{}
	for i := range w.Places {
		wanted[w.Places[i].Subset] += ceiling[i]
	}
	for i := range w.Places {
		if s := w.Places[i].Subset; wanted[s] > w.Allowed[s] {
			if s == "" {
				return "the partition lets no more pods be updated"
			}
			return fmt.Sprintf("the partition of subset %s lets no more of its pods be updated", s)
		}
	}
	return ""
}

// look counts what the wave selects: pods to be updated, places with such pods or all where
// none has any, and those that are lost.
func (w *walk) look(wave *topology.Wave, ceiling []int32) (pods, selected, lost int32) {
	for i := range w.Places {
		p := &w.Places[i]
		if !selects(wave, p) {
			continue
		}
		selected++
		pods += ceiling[i]
		if p.Lost || ceiling[i] == 0 && !w.p.Steps {
			lost++ // a place that nothing is asked of proves nothing either
		}
	}
	return pods, selected, lost
}

// settled tells whether all that is asked of the wave's members that are heard is done.
func (w *walk) settled(wave *topology.Wave, ceiling []int32) bool {
	if w.p.Steps {
		return w.settledTogether(ceiling)
	}
	for i := range w.Places {
		if p := &w.Places[i]; !p.Lost && selects(wave, p) && p.Updated < ceiling[i] {
			return false
		}
	}
	return true
}

// awaitPods waits for the pods of a wave that is not settled, until its timeout.
func (w *walk) awaitPods(wave *topology.Wave, pods int32) bool {
	if w.p.Settled != nil {
		w.p.Since = w.at // it was settled in time; the timeout starts again for the pods added since
	}
	w.unsettle()
	timeout := durationOf(wave.Timeout, 0)
	if timeout > 0 {
		due := w.p.Since.Add(timeout)
		if heard := w.Heard.Add(listens); heard.After(due) {
			due = heard // what came meanwhile may not have been told yet
		}
		if w.again = due.Sub(w.Now); w.again <= 0 {
			return w.fail("its %d pods were not updated and available within %s (timeout)", pods, wave.Timeout)
		}
	}
	if w.p.Limit > 0 {
		return w.wait("waits until its pods have ended and its checks hold")
	}
	return w.wait("waits until its %d pods are updated and available", pods)
}

// proven tells whether a settled wave has soaked, its checks hold, and nobody has to approve it.
func (w *walk) proven(wave *topology.Wave, ceiling []int32) bool {
	unmet, over := w.check(wave, ceiling)
	if over {
		return w.fail("%s", unmet)
	}
	soak := w.p.Settled.Add(durationOf(wave.Soak, 0))
	left := soak.Sub(w.Now)
	if len(wave.Checks) > 0 {
		w.again = checkEvery
	}
	switch {
	case unmet != "":
		return w.wait("waits: %s", unmet)
	case left > 0:
		for _, next := range []time.Duration{left, noteEvery(wave)} {
			if w.again == 0 || next < w.again {
				w.again = next
			}
		}
		return w.wait("soaks until %s", stamp(metav1.NewTime(soak)))
	case w.unproven(wave, ceiling) != "":
		if w.again == 0 || newsEvery < w.again {
			w.again = newsEvery
		}
		return w.wait("has soaked until %s, and waits for a report since then of %s",
			stamp(metav1.NewTime(soak)), w.unproven(wave, ceiling))
	case wave.Approval == topology.ApprovalRequired && w.p.Steps:
		return w.wait("waits until it is promoted: flotilla rollout promote")
	case wave.Approval == topology.ApprovalRequired:
		return w.wait("waits for a person to approve it: flotilla rollout approve")
	}
	return true
}

func durationOf(text string, otherwise time.Duration) time.Duration {
	if d, err := time.ParseDuration(text); err == nil {
		return d
	}
	return otherwise
}

func stamp(t metav1.Time) string { return t.UTC().Format(time.RFC3339) }
