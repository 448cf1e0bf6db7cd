package placement

import (
	"context"
	"fmt"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// Outcome is what the decision says to the user: the stage that writes the user's status reads it. It is not stored:
// after a restart the first reconcile of each workload makes it again.
type Outcome struct {
	// Generation of the user's object that was judged.
	Generation int64
	// Federated, Reason and Message make the condition Federated.
	Federated metav1.ConditionStatus
	Reason    string
	Message   string
	// Stalled: nothing moves before a person changes something, for the same reason.
	Stalled bool
	// Decided: a placement answers this generation; else what is placed, if anything, is older.
	Decided bool
	// Wave says what the wave under way of the update waits for, "" where none is.
	Wave string
}

// Outcomes holds the verdict of each workload of the hub. It is safe for concurrent use.
type Outcomes struct {
	mu          sync.Mutex
	byKey       map[wire.Key]Outcome
	undelivered map[wire.Key]kinds.Rejection
	events      chan event.TypedGenericEvent[wire.Key]
}

// outcomeBuffer lets a burst of decisions go on while the reader starts.
const outcomeBuffer = 1024

// NewOutcomes returns an empty store.
func NewOutcomes() *Outcomes {
	return &Outcomes{
		byKey:       map[wire.Key]Outcome{},
		undelivered: map[wire.Key]kinds.Rejection{},
		events:      make(chan event.TypedGenericEvent[wire.Key], outcomeBuffer),
	}
}

// Get returns the verdict of a workload; false if there is none (yet), or the workload is not the hub's.
func (v *Outcomes) Get(key wire.Key) (Outcome, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	outcome, ok := v.byKey[key]
	return outcome, ok
}

// Undelivered returns why a decision could not be delivered, false if it could.
func (v *Outcomes) Undelivered(key wire.Key) (kinds.Rejection, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	refusal, ok := v.undelivered[key]
	return refusal, ok
}

// SetUndelivered stores why a decision could not be delivered, nil if it could, and tells the reader when that changed.
func (v *Outcomes) SetUndelivered(ctx context.Context, key wire.Key, refusal *kinds.Rejection) {
	if refusal != nil {
		refusal = &kinds.Rejection{Reason: refusal.Reason, Message: sentences([]string{refusal.Message})}
	}
	v.mu.Lock()
	last, had := v.undelivered[key]
	changed := had != (refusal != nil) || refusal != nil && last != *refusal
	if refusal == nil {
		delete(v.undelivered, key)
	} else {
		v.undelivered[key] = *refusal
	}
	v.mu.Unlock()
	if changed {
		v.tell(ctx, key)
	}
}

// set stores a verdict, nil for none, and tells the reader when it changed.
func (v *Outcomes) set(ctx context.Context, key wire.Key, outcome *Outcome) {
	if v.store(key, outcome) {
		v.tell(ctx, key)
	}
}

func (v *Outcomes) tell(ctx context.Context, key wire.Key) {
	select {
	case v.events <- event.TypedGenericEvent[wire.Key]{Object: key}:
	case <-ctx.Done():
	}
}

func (v *Outcomes) store(key wire.Key, outcome *Outcome) (changed bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	last, had := v.byKey[key]
	if outcome == nil {
		delete(v.byKey, key)
		return had
	}
	v.byKey[key] = *outcome
	return !had || last != *outcome
}

// maxMessage is how many characters an outcome's message has. A workload can have 512 subsets, and each can have a
// sentence: an API server takes 32,768 characters in a condition, up to six conditions of the user's object repeat the
// message, and nobody reads more than the first few. Why and the placement have them all.
const maxMessage = 4096

// sentences joins messages. The first is kept in any case, cut if it alone is too long; then as many as fit,
// and how many do not.
func sentences(messages []string) string {
	var out strings.Builder
	length := 0
	for i, message := range messages {
		runes := []rune(message)
		switch {
		case i == 0 && len(runes) > maxMessage:
			out.WriteString(string(runes[:maxMessage]) + " …")
		case i == 0:
			out.WriteString(message)
		case length+len(runes) > maxMessage:
			fmt.Fprintf(&out, "; and %d more", len(messages)-i)
			return out.String()
		default:
			out.WriteString("; " + message)
		}
		length += len(runes)
	}
	return out.String()
}

// Source asks a controller to look again at each workload whose verdict changed, and at what concerned says of it. It
// serves one reader.
func (v *Outcomes) Source(concerned func(context.Context, wire.Key) []wire.Key) source.TypedSource[wire.Key] {
	return source.TypedChannel(v.events, handler.TypedEnqueueRequestsFromMapFunc(concerned))
}
