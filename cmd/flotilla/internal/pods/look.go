package pods

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/console"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/waits"
)

// Look reads what the members have of a workload, for other verbs.
type Look struct{ options }

// AddFlags adds the flags by which the hub and the members are reached.
func (l *Look) AddFlags(cmd *cobra.Command) { l.addFlags(cmd) }

// Hub returns the hub that the flags name.
func (l *Look) Hub() *console.Hub { return &l.hub }

// Seen is what members have of a workload.
type Seen struct {
	Members []Member `json:"members"`
	// Events are those of the hub and the members, the newest last.
	Events []Event `json:"events,omitempty"`
	// Unreached are sentences about members that were not reached.
	Unreached []string `json:"unreached,omitempty"`
}

// Member is what one member has of a workload.
type Member struct {
	Name string `json:"name"`
	// Pods of the workload there, and how many of them are Ready or have succeeded.
	Pods  int `json:"pods"`
	Ready int `json:"ready"`
	// NotReady are the others.
	NotReady []NotReady `json:"notReady,omitempty"`
}

// NotReady is a pod that is not Ready.
type NotReady struct {
	Name   string `json:"name"`
	Status string `json:"status"`
	// Why is the reason in words, empty where nothing is known but the status.
	Why string `json:"why,omitempty"`
}

// See asks the members for the pods of a workload, and the hub and the members for the events about it. What is not
// reached is in the result; talk gets what is said while members are reached.
func (l *Look) See(
	ctx context.Context, argument string, key wire.Key, now clock.PassiveClock, talk io.Writer,
) (*Seen, error) {
	seen, t := &Seen{Members: []Member{}}, &target{argument: argument, key: key}
	f, err := l.fleet(ctx, talk, &key)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		seen.Unreached = append(seen.Unreached, err.Error())
		f = &fleet{}
		if c, err := l.hub.Client(); err == nil {
			f.hub = c
		}
	}
	for _, err := range f.failures {
		seen.Unreached = append(seen.Unreached, err.Error())
	}
	events, err := hubEvents(ctx, f.hub, key.Namespace, t, now.Now())
	if err != nil {
		seen.Unreached = append(seen.Unreached, err.Error())
	}
	seen.Events = events
	answers := ask(ctx, f.members, l.patience, func(ctx context.Context, r *reached) (Seen, error) {
		return r.see(ctx, t, now.Now())
	})
	for _, a := range answers {
		switch {
		case a.err == nil:
			seen.Members = append(seen.Members, a.value.Members...)
			seen.Events = append(seen.Events, a.value.Events...)
			seen.Unreached = append(seen.Unreached, a.value.Unreached...)
		case a.member.expected:
			seen.Unreached = append(seen.Unreached, a.err.Error())
		}
	}
	seen.Events = sortedEvents(seen.Events)
	return seen, nil
}

// see returns what one member has of a workload. Its events are left out where they cannot be read.
func (r *reached) see(ctx context.Context, t *target, now time.Time) (Seen, error) {
	pods, err := r.pods(ctx, t)
	if err != nil {
		return Seen{}, err
	}
	seen := Seen{Members: []Member{memberOf(r.name, pods, now)}}
	events, err := r.memberEvents(ctx)
	if err != nil {
		seen.Unreached = append(seen.Unreached, err.Error())
	}
	seen.Events = eventsOf(r.name, events, about(t, pods), now)
	return seen, nil
}

// memberOf says which pods are not Ready, and why. It is pure.
func memberOf(name string, pods []corev1.Pod, now time.Time) Member {
	m := Member{Name: name, Pods: len(pods)}
	for i := range pods {
		pod := &pods[i]
		if pod.DeletionTimestamp == nil && (podstate.Ready(pod) || pod.Status.Phase == corev1.PodSucceeded) {
			m.Ready++
			continue
		}
		p := NotReady{Name: pod.Name, Status: rowOf(name, pod, now).Status}
		if why := waits.NotReadyOf(pod); why != nil && why.Left(now) == 0 {
			p.Why = why.Reason + ": "
			if why.Container != "" {
				p.Why += "container " + why.Container + " "
			}
			p.Why += why.Message
		}
		m.NotReady = append(m.NotReady, p)
	}
	return m
}

// HasPods reports whether objects of the kind have pods of their own.
func HasPods(key wire.Key) bool {
	for _, kind := range withPods() {
		if kind == key.GroupKind() {
			return true
		}
	}
	return false
}

// EventsText returns the table of events.
func EventsText(events []Event) string { return eventsText(events, false, false) }
