package main

import (
	"strings"
	"time"

	"github.com/flotilla-dev/flotilla/e2e/audit"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/e2e/judge"
)

// deletions reads from the audit logs who asked for pods of the namespace to be deleted. The simulated kubelets are
// left out: they end what somebody began.
func (s *stage) deletions(since time.Time, namespace string) (judge.Deletions, error) {
	asked := judge.Deletions{}
	for _, name := range s.h.MemberNames() {
		events, err := audit.ReadRequestsFile(s.h.Members[name].AuditLog(), audit.Between(since, time.Time{}),
			podsDeleted(namespace))
		if err != nil {
			return nil, err
		}
		addDeletions(asked, name, events)
	}
	return asked, nil
}

// kubelets is the program of all simulated kubelets in the audit log. It has the credentials of an administrator, as
// the faults have.
const kubelets = "kwok-controller"

// podsDeleted wants requests to delete or evict pods of a namespace, other than those of simulated kubelets.
func podsDeleted(namespace string) audit.Filter {
	return func(e *audit.Event) bool {
		deletes := e.Verb == "delete" && e.FullResource() == "pods" ||
			e.Verb == "create" && e.FullResource() == "pods/eviction"
		return deletes && e.Namespace == namespace && e.Program != kubelets
	}
}

func addDeletions(d judge.Deletions, cluster string, events []audit.Event) {
	for i := range events {
		e := &events[i]
		key := judge.PodKey{Cluster: cluster, Name: e.Name}
		d[key] = append(d[key], judge.Deletion{Ours: ours(e.User), Asked: e.Received, Answered: e.Answered, Code: e.Code})
	}
}

// ours tells whether a user is a program of ours.
func ours(user string) bool {
	return user == fleet.HubUser || user == fleet.AgentUser || strings.HasPrefix(user, fleet.MemberUser(""))
}
