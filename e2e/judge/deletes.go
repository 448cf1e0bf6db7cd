package judge

import (
	"net/http"
	"slices"
	"time"
)

// Deletion is a request to delete a pod, as the audit log of its cluster has it.
type Deletion struct {
	Ours bool
	// asked and answered are by the API server's clock; answered is zero where no answer was written: the API server was
	// killed.
	Asked, Answered time.Time
	Code            int
}

// Deletions are the requests to delete each pod.
type Deletions map[PodKey][]Deletion

// PodKey names a pod of a cluster.
type PodKey struct{ Cluster, Name string }

// answerLimit is how long an API server works on a request at most.
const answerLimit = time.Minute

// ByUs reports whether our programs deleted a pod, which was seen to be going at a time. began is the second in which
// the API server stored that it goes, by its own clock and without a fraction; zero where that was not seen.
//
// What counts is what was stored, and not what was answered: a delete whose client gives up, or that takes too long, is
// answered with 504 and carried out all the same, and one whose API server is killed has no answer. An answer of 4xx
// changed nothing. So a request is taken for a cause where the pod began to go between its arrival and its answer;
// without a proper answer also a little later.
//
// Where both we and others may have been the cause, it was the others only if one of them was told that the pod goes
// before any of us asked. In all other cases a program of ours had decided to take down a pod that was there: that is
// its doing, whoever's write came first, and what its limits are for. That accuses nobody falsely, since the program
// counts the pod among those that it takes. A pod that nobody known deleted counts as ours: the checker is not to be
// blind to what the log lacks.
func (d Deletions) ByUs(key PodKey, began, seen time.Time) bool {
	for _, late := range []time.Duration{ordering, answerLimit} { // what is likely comes first
		var we, others []Deletion
		for _, one := range d[key] {
			switch {
			case !one.mayBeCause(began, seen, late):
			case one.Ours:
				we = append(we, one)
			default:
				others = append(others, one)
			}
		}
		if len(we) > 0 {
			first := slices.MinFunc(we, func(a, b Deletion) int { return a.Asked.Compare(b.Asked) }).Asked
			return !slices.ContainsFunc(others, func(o Deletion) bool { return o.carriedOut() && o.Answered.Before(first) })
		}
		if len(others) > 0 {
			return false
		}
	}
	return true
}

// carriedOut reports whether the API server said so.
func (r *Deletion) carriedOut() bool {
	return r.Code >= http.StatusOK && r.Code < http.StatusMultipleChoices
}

// mayBeCause reports whether the pod may have begun to go by this request; late is how much after an answer that says
// nothing.
func (r *Deletion) mayBeCause(began, seen time.Time, late time.Duration) bool {
	refused := r.Code >= http.StatusBadRequest && r.Code < http.StatusInternalServerError
	if refused || r.Asked.After(seen) {
		return false
	}
	if began.IsZero() {
		return true
	}
	end := r.Answered
	switch {
	case r.Answered.IsZero():
		end = r.Asked.Add(answerLimit)
	case !r.carriedOut():
		end = r.Answered.Add(late)
	}
	return r.Asked.Before(began.Add(time.Second)) && !end.Before(began)
}
