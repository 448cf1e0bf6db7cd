package audit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"
)

// Event is one answered request.
type Event struct {
	// User is the user that the API server acted for: the impersonated one if there is one.
	User string
	// Program is the client's name in its User-Agent, up to the first "/": "flotilla-agent", "kubectl".
	Program string
	// Verb is create, update, patch, delete, deletecollection or a reading verb.
	Verb string
	// Group is the API group, empty for the core group; Resource the plural name.
	Group, Resource string
	// Subresource is "status", "scale", … or empty.
	Subresource     string
	Namespace, Name string
	// LabelSelector is that of a list or a watch.
	LabelSelector string
	// AnswerKind is the kind of the answer, such as PartialObjectMetadataList, where the policy writes answers.
	AnswerKind string
	// Code is the HTTP status of the answer, 0 for none.
	Code int
	// Received and Answered are by the API server's clock. Answered is zero where there was no answer.
	Received, Answered time.Time
}

// FullResource returns the resource with its group and subresource: "works.work.karmada.io/status", "pods".
func (e *Event) FullResource() string {
	name := e.Resource
	if e.Group != "" {
		name += "." + e.Group
	}
	if e.Subresource != "" {
		name += "/" + e.Subresource
	}
	return name
}

// Mutating reports whether the verb writes.
func (e *Event) Mutating() bool {
	switch e.Verb {
	case "create", "update", "patch", "delete", "deletecollection":
		return true
	default:
		return false
	}
}

// Lease reports whether the request is for a Lease, which every program of a control plane renews all the time.
func (e *Event) Lease() bool { return e.Group == "coordination.k8s.io" && e.Resource == "leases" }

// Conflict reports whether the server refused the request with 409: the object had changed, or existed already.
func (e *Event) Conflict() bool { return e.Code == 409 }

// Filter says whether an event is wanted.
type Filter func(*Event) bool

// Between wants events that were received at from or later and before to. A zero to means no end.
func Between(from, to time.Time) Filter {
	return func(e *Event) bool {
		return !e.Received.Before(from) && (to.IsZero() || e.Received.Before(to))
	}
}

// Writes wants mutating requests other than those for Leases.
func Writes() Filter {
	return func(e *Event) bool { return e.Mutating() && !e.Lease() }
}

// ByPrograms wants requests of clients with one of these names in their User-Agent.
func ByPrograms(names ...string) Filter {
	return func(e *Event) bool { return slices.Contains(names, e.Program) }
}

// ByUser wants requests of users for whom match returns true.
func ByUser(match func(user string) bool) Filter {
	return func(e *Event) bool { return match(e.User) }
}

// ReadFile returns the events in the audit log at path that every filter wants, in the order of the log.
// A last line that is not complete yet is left out.
func ReadFile(path string, filters ...Filter) ([]Event, error) {
	return readFile(path, filters, Read)
}

// Read is ReadFile for an open log.
func Read(log io.Reader, filters ...Filter) ([]Event, error) {
	var events []Event
	err := scan(log, func(l *line) {
		if event := l.event(); l.answers() && wanted(&event, filters) {
			events = append(events, event)
		}
	})
	if err != nil {
		return nil, err
	}
	return events, nil
}

// ReadRequestsFile is ReadFile for requests whether they were answered or not, as [ReadRequests] has them.
func ReadRequestsFile(path string, filters ...Filter) ([]Event, error) {
	return readFile(path, filters, ReadRequests)
}

// ReadRequests returns the requests that every filter wants, in the order in which the log has them first. Where the
// policy writes their beginning (RequestReceived), it has also those that were never answered: an API server that is
// killed takes its answers with it. One whose handler panicked (Panic) counts as answered with the code that was
// written then.
func ReadRequests(log io.Reader, filters ...Filter) ([]Event, error) {
	var events []Event
	known := map[string]int{} // by the id of the request
	err := scan(log, func(l *line) {
		event, at := l.event(), len(events)
		if i, ok := known[l.AuditID]; ok && l.AuditID != "" {
			at = i
		} else {
			known[l.AuditID] = at
			events = append(events, event)
		}
		if l.Stage == stageReceived {
			event.Code, event.Answered = 0, time.Time{}
		}
		if events[at].Code == 0 || event.Code != 0 {
			events[at] = event
		}
	})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(events, func(e Event) bool { return !wanted(&e, filters) }), nil
}

func wanted(e *Event, filters []Filter) bool {
	return !slices.ContainsFunc(filters, func(f Filter) bool { return !f(e) })
}

func readFile(path string, filters []Filter, read func(io.Reader, ...Filter) ([]Event, error)) ([]Event, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read audit log: %w", err)
	}
	defer file.Close()
	events, err := read(file, filters...)
	if err != nil {
		return nil, fmt.Errorf("read audit log %s: %w", path, err)
	}
	return events, nil
}

// scan visits every line.
func scan(log io.Reader, visit func(*line)) error {
	in := bufio.NewReader(log)
	for number := 1; ; number++ {
		data, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil // what follows the last newline is still being written
		}
		if err != nil {
			return err
		}
		if len(bytes.TrimSpace(data)) == 0 {
			continue
		}
		var l line
		if err := json.Unmarshal(data, &l); err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
		visit(&l)
	}
}

// The stages of a request that are told apart.
const (
	stageReceived = "RequestReceived"
	stageStarted  = "ResponseStarted"
	stageComplete = "ResponseComplete"
)

// line is the part of audit.k8s.io/v1 Event that is needed here.
type line struct {
	AuditID          string `json:"auditID"`
	Stage            string `json:"stage"`
	Verb             string `json:"verb"`
	User             user   `json:"user"`
	ImpersonatedUser *user  `json:"impersonatedUser"`
	UserAgent        string `json:"userAgent"`
	ObjectRef        struct {
		APIGroup    string `json:"apiGroup"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	RequestURI     string `json:"requestURI"`
	ResponseObject struct {
		Kind string `json:"kind"`
	} `json:"responseObject"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	RequestReceivedTimestamp time.Time `json:"requestReceivedTimestamp"`
	StageTimestamp           time.Time `json:"stageTimestamp"`
}

type user struct {
	Username string `json:"username"`
}

// answers tells whether the line is the one by which a request counts.
func (l *line) answers() bool {
	return l.Stage == stageComplete || l.Stage == stageStarted && l.Verb == "watch"
}

func (l *line) event() Event {
	who := l.User.Username
	if l.ImpersonatedUser != nil {
		who = l.ImpersonatedUser.Username
	}
	program, _, _ := strings.Cut(l.UserAgent, "/")
	selector := ""
	if uri, err := url.Parse(l.RequestURI); err == nil {
		selector = uri.Query().Get("labelSelector")
	}
	return Event{
		LabelSelector: selector, AnswerKind: l.ResponseObject.Kind,
		User: who, Program: program, Verb: l.Verb,
		Group: l.ObjectRef.APIGroup, Resource: l.ObjectRef.Resource, Subresource: l.ObjectRef.Subresource,
		Namespace: l.ObjectRef.Namespace, Name: l.ObjectRef.Name,
		Code: l.ResponseStatus.Code, Received: l.RequestReceivedTimestamp, Answered: l.StageTimestamp,
	}
}
