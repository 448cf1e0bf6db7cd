package main

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/flotilla-dev/flotilla/e2e/audit"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
)

// deletion is a request to delete a pod, as the audit log of its cluster has it.
type deletion struct {
	ours bool
	// asked and answered are by the API server's clock; answered is zero where no answer was written: the API server was
	// killed.
	asked, answered time.Time
	code            int
}

// deletions are the requests to delete each pod.
type deletions map[podKey][]deletion

type podKey struct{ cluster, name string }

// answerLimit is how long an API server works on a request at most.
const answerLimit = time.Minute

// byUs tells whether our programs took a pod away, which was seen to be going at a time. began is the second in which
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
func (d deletions) byUs(key podKey, began, seen time.Time) bool {
	for _, late := range []time.Duration{ordering, answerLimit} { // what is likely comes first
		var we, others []deletion
		for _, one := range d[key] {
			switch {
			case !one.mayBeCause(began, seen, late):
			case one.ours:
				we = append(we, one)
			default:
				others = append(others, one)
			}
		}
		if len(we) > 0 {
			first := slices.MinFunc(we, func(a, b deletion) int { return a.asked.Compare(b.asked) }).asked
			return !slices.ContainsFunc(others, func(o deletion) bool { return o.carriedOut() && o.answered.Before(first) })
		}
		if len(others) > 0 {
			return false
		}
	}
	return true
}

// carriedOut tells whether the API server said so.
func (r *deletion) carriedOut() bool {
	return r.code >= http.StatusOK && r.code < http.StatusMultipleChoices
}

// mayBeCause tells whether the pod may have begun to go by this request; late is how much after an answer that says
// nothing.
func (r *deletion) mayBeCause(began, seen time.Time, late time.Duration) bool {
	refused := r.code >= http.StatusBadRequest && r.code < http.StatusInternalServerError
	if refused || r.asked.After(seen) {
		return false
	}
	if began.IsZero() {
		return true
	}
	end := r.answered
	switch {
	case r.answered.IsZero():
		end = r.asked.Add(answerLimit)
	case !r.carriedOut():
		end = r.answered.Add(late)
	}
	return r.asked.Before(began.Add(time.Second)) && !end.Before(began)
}

// deletions reads from the audit logs who asked for pods of the namespace to be deleted. The simulated kubelets are
// left out: they end what somebody began.
func (s *stage) deletions(since time.Time, namespace string) (deletions, error) {
	asked := deletions{}
	for _, name := range s.h.MemberNames() {
		events, err := audit.ReadRequestsFile(s.h.Members[name].AuditLog(), audit.Between(since, time.Time{}),
			podsDeleted(namespace))
		if err != nil {
			return nil, err
		}
		asked.add(name, events)
	}
	return asked, nil
}

// kubelets is the program of all simulated kubelets in the audit log. It has the credentials of an administrator, as
// fate does.
const kubelets = "kwok-controller"

// podsDeleted wants requests to delete pods of a namespace, other than those of simulated kubelets.
func podsDeleted(namespace string) audit.Filter {
	return func(e *audit.Event) bool {
		return e.Verb == "delete" && e.FullResource() == "pods" && e.Namespace == namespace && e.Program != kubelets
	}
}

func (d deletions) add(cluster string, events []audit.Event) {
	for i := range events {
		e := &events[i]
		key := podKey{cluster, e.Name}
		d[key] = append(d[key], deletion{ours: ours(e.User), asked: e.Received, answered: e.Answered, code: e.Code})
	}
}

// ours tells whether a user is a program of ours.
func ours(user string) bool {
	return user == fleet.HubUser || user == fleet.AgentUser || strings.HasPrefix(user, fleet.MemberUser(""))
}
