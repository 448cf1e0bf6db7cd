package simulator

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Profile says how slow and how unreliable a world is. It may be changed while the world runs.
type Profile struct {
	// Lag is how long an event takes to the cache, mostly; SlowLag how long one in SlowEvery takes at most.
	Lag, SlowLag time.Duration
	// SlowEvery is 0 where no event is slow.
	SlowEvery int
	// Latency is how long a request takes at most.
	Latency time.Duration
	// FailEvery lets one request in so many fail; 0 none.
	FailEvery int
	// Kubelet is how long a kubelet takes for a step at most.
	Kubelet time.Duration
	// SlowPods lets one container in so many take ten times as long; 0 none.
	SlowPods int
}

// Calm is a world in which nothing goes wrong, and everything takes a moment.
func Calm() Profile {
	return Profile{Lag: 20 * time.Millisecond, Latency: 10 * time.Millisecond, Kubelet: 500 * time.Millisecond}
}

// upTo returns a random duration of at most d, and at least a millisecond.
func upTo(r *rand.Rand, d time.Duration) time.Duration {
	return time.Millisecond + time.Duration(r.Int64N(int64(d)+1)).Truncate(time.Millisecond)
}

func (p Profile) lag(r *rand.Rand) time.Duration {
	if p.SlowEvery > 0 && r.IntN(p.SlowEvery) == 0 {
		return upTo(r, p.SlowLag)
	}
	return upTo(r, p.Lag)
}

// fault is what becomes of one request.
type fault struct {
	latency time.Duration
	// refusal is the answer to a request that is not carried out.
	refusal error
	// lost is the answer to a request that is carried out, but whose answer is lost.
	lost error
}

// fault decides about the nth request of this label, whatever came in between.
func (w *World) fault(label string) fault {
	w.asked[label]++
	sum := fnv.New64a()
	_, _ = fmt.Fprintf(sum, "%s#%d", label, w.asked[label])
	r := rand.New(rand.NewPCG(w.seed, sum.Sum64()))
	out := fault{latency: upTo(r, w.Profile.Latency)}
	if w.Profile.FailEvery > 0 && r.IntN(w.Profile.FailEvery) == 0 {
		out.refusal, out.lost = failure(r.IntN(7))
	}
	return out
}

// failure returns one of the ways in which requests fail.
func failure(n int) (refusal, lost error) {
	timeout := apierrors.NewTimeoutError("the server did not answer in time", 1)
	reset := errors.New("connection reset by peer")
	switch n {
	case 0:
		return apierrors.NewConflict(resource(""), "", errors.New("the object has been modified")), nil
	case 1:
		return apierrors.NewTooManyRequests("try again", 1), nil
	case 2:
		return apierrors.NewInternalError(errors.New("the webhook failed")), nil
	case 3:
		return timeout, nil
	case 4:
		return nil, timeout
	case 5:
		return reset, nil
	}
	return nil, reset
}

// Write is one request of a controller that may have changed the world.
type Write struct {
	// Verb is create, patch, update or delete.
	Verb string
	Kind Kind
	Key  types.NamespacedName
	// Subresource is "status" or "resize", or empty.
	Subresource string
	// Before and After are the object; nil where there is none. They are the same where nothing happened.
	Before, After client.Object
	// Err is what the controller was told.
	Err error
}
