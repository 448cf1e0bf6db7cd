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

// Verdict is what the decision says to the user: the stage that writes the user's status reads it. It is not stored: after
// a restart the first reconcile of each workload makes it again.
type Verdict struct {
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

// Verdicts holds the verdict of each workload of the hub. It is safe for concurrent use.
type Verdicts struct {
	mu          sync.Mutex
	byKey       map[wire.Key]Verdict
	undelivered map[wire.Key]kinds.Rejection
	events      chan event.TypedGenericEvent[wire.Key]
}

// verdictBuffer lets a burst of decisions go on while the reader starts.
const verdictBuffer = 1024

// NewVerdicts returns an empty store.
func NewVerdicts() *Verdicts {
	return &Verdicts{byKey: map[wire.Key]Verdict{}, undelivered: map[wire.Key]kinds.Rejection{}, events: make(chan event.TypedGenericEvent[wire.Key], verdictBuffer)}
}

// Get returns the verdict of a workload; false if there is none (yet), or the workload is not the hub's.
func (v *Verdicts) Get(key wire.Key) (Verdict, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	verdict, ok := v.byKey[key]
	return verdict, ok
}

// Undelivered returns why a decision could not be delivered, false if it could.
func (v *Verdicts) Undelivered(key wire.Key) (kinds.Rejection, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	refusal, ok := v.undelivered[key]
	return refusal, ok
}

// SetUndelivered stores why a decision could not be delivered, nil if it could, and tells the reader when that changed.
func (v *Verdicts) SetUndelivered(ctx context.Context, key wire.Key, refusal *kinds.Rejection) {
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
func (v *Verdicts) set(ctx context.Context, key wire.Key, verdict *Verdict) {
	if v.store(key, verdict) {
		v.tell(ctx, key)
	}
}

func (v *Verdicts) tell(ctx context.Context, key wire.Key) {
	select {
	case v.events <- event.TypedGenericEvent[wire.Key]{Object: key}:
	case <-ctx.Done():
	}
}

func (v *Verdicts) store(key wire.Key, verdict *Verdict) (changed bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	last, had := v.byKey[key]
	if verdict == nil {
		delete(v.byKey, key)
		return had
	}
	v.byKey[key] = *verdict
	return !had || last != *verdict
}

// maxVerdict is how many characters a verdict's message has. A workload can have 512 subsets, and each can have a sentence: an API
// server takes 32,768 characters in a condition, up to six conditions of the user's object repeat the message, and nobody reads
// more than the first few. Why and the placement have them all.
const maxVerdict = 4096

// sentences joins messages. The first is told in any case, cut where it alone is too long; then as many as find room, and how
// many do not.
func sentences(messages []string) string {
	var out strings.Builder
	length := 0
	for i, message := range messages {
		runes := []rune(message)
		switch {
		case i == 0 && len(runes) > maxVerdict:
			out.WriteString(string(runes[:maxVerdict]) + " …")
		case i == 0:
			out.WriteString(message)
		case length+len(runes) > maxVerdict:
			fmt.Fprintf(&out, "; and %d more", len(messages)-i)
			return out.String()
		default:
			out.WriteString("; " + message)
		}
		length += len(runes)
	}
	return out.String()
}

// Source asks a controller to look again at each workload whose verdict changed, and at what concerned says of it. It serves
// one reader.
func (v *Verdicts) Source(concerned func(context.Context, wire.Key) []wire.Key) source.TypedSource[wire.Key] {
	return source.TypedChannel(v.events, handler.TypedEnqueueRequestsFromMapFunc(concerned))
}
