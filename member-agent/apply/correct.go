package apply

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/member-agent/objects"
	"github.com/flotilla-dev/flotilla/member-agent/ownership"
)

const (
	// contestAfter corrections of an object within contestWindow mean that another writer contests it.
	contestWindow = time.Minute
	contestAfter  = 3
	// pauseFirst is the pause before the next correction of a contested object. It doubles with each one, up to pauseMost.
	pauseFirst = 5 * time.Second
	pauseMost  = time.Minute
)

// correction is what another writer changed in an object after the agent had written the order.
type correction struct {
	// changes are the fields that differ from the order, and writer is the field manager that wrote the first of them.
	// Both are empty if they were not looked up.
	changes []ownership.Change
	writer  string
}

// correction returns what an action corrects, nil if it corrects nothing. The writer is looked up only for an object
// that may be contested, because that costs a request.
func (r *Reconciler) correction(ctx context.Context, m *memo, facts Facts, action Action) *correction {
	if action != Update || !written(facts) {
		return nil
	}
	c := &correction{}
	if len(m.contest.corrected) >= contestAfter-1 {
		r.lookUp(ctx, m, c, facts.Live)
	}
	return c
}

// lookUp reads who changed what in an object that is not corrected yet. If that
// fails, the correction goes on without it.
func (r *Reconciler) lookUp(ctx context.Context, m *memo, c *correction, live *unstructured.Unstructured) {
	full := shell(live)
	if err := r.reader.Get(ctx, client.ObjectKeyFromObject(full), full); err != nil {
		return
	}
	changes, err := ownership.Changes(m.order.Desired, full, m.order.Desired)
	if err != nil {
		return
	}
	changes = append(ownership.Unexplained(changes, m.admits), ownership.MetadataChanges(full, m.order.Desired)...)
	if len(changes) > 0 {
		c.changes, c.writer = changes, ownership.Manager(full, changes[0].Path, FieldManager)
	}
}

// admits reports whether the member's admission changed a field in the agent's last write, and whether to this value.
// After a restart only the first changes are known: those in the note.
func (m *memo) admits(change ownership.Change) (field, value bool) {
	if m.admitted == nil && m.Note != "" {
		return strings.Contains(m.Note, " "+change.Field()+" "), strings.Contains(m.Note, change.String())
	}
	for i := range m.admitted {
		if a := &m.admitted[i]; a.Field() == change.Field() {
			return true, a.Found == change.Found
		}
	}
	return false, false
}

// fields returns the paths of what was changed.
func (c *correction) fields() string {
	var fields []string
	for i := range c.changes {
		fields = append(fields, c.changes[i].Field())
	}
	return strings.Join(fields, ",")
}

// by names the writer.
func (c *correction) by() string {
	if c.writer == "" {
		return "another writer"
	}
	return "field manager " + c.writer
}

// contested is the message of an object that is corrected again and again.
func (c *correction) contested(ref objects.Ref) string {
	return fmt.Sprintf("%s is changed again and again in the member by %s: %s. The agent restores the order, "+
		"after pauses that grow. Stop that writer, or make the change on the hub.", ref, c.by(), c.sentence())
}

// refused begins the message of an object that cannot be corrected.
func (c *correction) refused(ref objects.Ref) string {
	return fmt.Sprintf("%s was changed in the member by %s (%s), and the correction failed", ref, c.by(), c.sentence())
}

func (c *correction) sentence() string {
	if len(c.changes) == 0 {
		return "its labels, annotations or content are not as ordered"
	}
	return ownership.Sentence(c.changes)
}

// corrected counts a correction, and reports an object that is contested.
func (r *Reconciler) corrected(ctx context.Context, m *memo, c *correction, answer *unstructured.Unstructured) {
	logger(ctx, m).Info("Corrected a change that was not ordered", "changes", c.sentence(), "by", c.writer)
	r.Outcomes.countCorrection(m.order.Ref.Kind)
	now := r.Clock.Now()
	pause := m.contest.add(now)
	if pause == 0 {
		m.CorrectAt = now
		return
	}
	m.CorrectAt = now.Add(pause)
	m.contest.name(c.writer, c.fields(), c.contested(m.order.Ref))
	r.events.Eventf(answer, nil, corev1.EventTypeWarning, "Overwritten", "Correct", "%s", noteOf(c.contested(m.order.Ref)))
}

// maxNote is how many bytes of a note an API server takes in an Event.
const maxNote = 1024

// noteOf cuts a message to what an Event takes.
func noteOf(message string) string {
	const end = " …"
	if len(message) <= maxNote {
		return message
	}
	// Only the last rune can be cut in two: the message is valid UTF-8 otherwise, or an API server would not have given
	// it.
	return strings.ToValidUTF8(message[:maxNote-len(end)], "") + end
}

// contest counts the corrections of one object. The zero value has none.
type contest struct {
	// corrected are the times of the last corrections, oldest first.
	corrected []time.Time
	// repeats counts the corrections since the object is contested.
	repeats int
	// until is when the contest ends, unless another correction comes before.
	until time.Time
	// writer and fields are who writes what, and message says so. All three change together, and not with the values that
	// are written, so that the outcome does not change with each correction.
	writer, fields, message string
}

// add counts a correction at now, and returns the pause before the next one, 0 if the object is not contested.
func (c *contest) add(now time.Time) time.Duration {
	if !c.active(now) {
		c.corrected = slices.DeleteFunc(c.corrected, func(at time.Time) bool { return now.Sub(at) >= contestWindow })
		if c.repeats > 0 {
			*c = contest{}
		}
		c.corrected = append(c.corrected, now)
		if len(c.corrected) < contestAfter {
			return 0
		}
	}
	pause := min(pauseMost, pauseFirst<<min(c.repeats, 10))
	c.repeats++
	c.until = now.Add(pause + contestWindow)
	return pause
}

// active reports whether the object is contested.
func (c *contest) active(now time.Time) bool { return now.Before(c.until) }

// name sets who writes what.
func (c *contest) name(writer, fields, message string) {
	if c.writer != writer || c.fields != fields {
		c.writer, c.fields, c.message = writer, fields, message
	}
}
