package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/apis/crds"
	topologyv1alpha1 "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/audit"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/hub/inventory/registration"
	"github.com/flotilla-dev/flotilla/member-agent/link/credential"
)

const (
	agentsSectionName = "agents, real credentials and links"
	// agentsPolicy writes every request of agents, hub and approver to the audit log; a watch when it begins.
	agentsPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- {level: Metadata, verbs: [watch], userGroups: ["flotilla:members", "system:serviceaccounts:flotilla-system"], omitStages: [RequestReceived, ResponseComplete, Panic]}
- {level: Metadata, verbs: [watch], users: [flotilla-hub, flotilla-approver], omitStages: [RequestReceived, ResponseComplete, Panic]}
- {level: Metadata, userGroups: ["flotilla:members", "system:serviceaccounts:flotilla-system"], omitStages: [RequestReceived, ResponseStarted, Panic]}
- {level: Metadata, users: [flotilla-hub, flotilla-approver], omitStages: [RequestReceived, ResponseStarted, Panic]}
- {level: None}
`
	// calmFor is how long a fleet at rest is looked at, before the outage and after it.
	calmFor = 20 * time.Second
	// sampleEvery is the length of a row of the table, acceptEvery the time between two looks of flotilla accept --wait.
	sampleEvery, acceptEvery = 5 * time.Second, 300 * time.Millisecond
)

// herd is a hub with agents that join it, and that come back after an outage.
type herd struct {
	*simulation
	agents []*agent
	admin  client.Client
	group  *errgroup.Group
	sent   atomic.Int64
	phase  atomic.Pointer[string]
	marks  []mark
}

// agentsSection measures what many agents ask of a hub when they join, at rest, and when they all come back.
func agentsSection(ctx context.Context, b *bench) error {
	policy := filepath.Join(b.ours, "audit-policy-agents.yaml")
	if err := os.WriteFile(policy, []byte(agentsPolicy), 0o600); err != nil {
		return fmt.Errorf("write the audit policy: %w", err)
	}
	defer os.Remove(policy)
	f, err := fleet.Start(ctx, fleet.Config{Bin: b.bin, AuditPolicy: policy, Progress: b.step})
	if err != nil {
		return err
	}
	b.step("the fleet is in " + f.Dir)
	h := &herd{
		simulation: &simulation{bench: b, fleet: f, members: b.agents, section: agentsSectionName, seen: newSightings()},
	}
	if err = h.run(ctx); err != nil {
		b.keepLogs(f)
	}
	return errors.Join(err, f.Destroy())
}

func (h *herd) run(ctx context.Context) error {
	if err := h.prepare(ctx); err != nil {
		return err
	}
	life, stop := context.WithCancel(ctx)
	defer stop()
	h.group, life = errgroup.WithContext(life)
	began := time.Now()
	h.group.Go(func() error { return h.sample(life) })
	err := h.story(life)
	end := time.Now()
	stop()
	// What they end with is an answer to the stop.
	if ended := h.group.Wait(); err != nil {
		return errors.Join(err, ended)
	}
	return h.tell(began, end)
}

// prepare starts hub and approver, with policies for the groups.
func (h *herd) prepare(ctx context.Context) error {
	h.enter("starts")
	for i := range h.members {
		h.agents = append(h.agents, &agent{name: h.name(i), member: newPretended(h.name(i)), reply: h.reply, tries: &h.sent})
	}
	var err error
	if err := h.fleet.Hub().InstallCRDs(ctx, crds.FS); err != nil {
		return err
	}
	if h.hub, err = connect(h.fleet.Hub()); err != nil {
		return err
	}
	scheme, err := registration.Scheme()
	if err != nil {
		return err
	}
	config := h.fleet.Hub().RESTConfig()
	config.UserAgent = benchProgram
	if h.admin, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return fmt.Errorf("connect to the hub: %w", err)
	}
	if _, err := h.startHub(ctx, h.fleet); err != nil {
		return err
	}
	if err := h.fleet.RunApprover(ctx, h.ours); err != nil {
		return err
	}
	if err := h.hub.createNamespace(ctx, namespace, map[string]string{topologyv1alpha1.LabelFederated: "true"}); err != nil {
		return err
	}
	system, err := h.hub.core.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read the hub's id: %w", err)
	}
	h.hubID = string(system.UID)
	return h.policies(ctx)
}

// story lets the agents join, work, lose the hub and find it again.
func (h *herd) story(ctx context.Context) error {
	row := fmt.Sprintf("%d agents", h.members)
	h.say(
		"%s come within %s, and make %d workloads on %d members each; then the hub is away for %s",
		row,
		h.over,
		h.fan,
		perGroup,
		h.outage,
	)
	h.enter("join")
	began := time.Now()
	if err := h.joinAll(ctx); err != nil {
		return err
	}
	h.figure(row, "all joined", "s", time.Since(began).Seconds())
	took := make([]float64, len(h.agents))
	for i, a := range h.agents {
		took[i] = a.joined.Sub(a.came).Seconds()
	}
	h.figure(row, "one joins, P50", "s", median(took))
	h.figure(row, "one joins, P99", "s", percentile(took, 99))

	h.enter("workloads")
	follow, stop := context.WithCancel(ctx)
	h.group.Go(func() error {
		err := h.hub.follow(follow, &appsv1beta1.CloneSetList{}, nil, h.look)
		if follow.Err() != nil {
			return nil
		}
		return err
	})
	err := h.workloads(ctx, row)
	stop()
	if err != nil {
		return err
	}
	h.enter("at rest")
	if err := pause(ctx, calmFor); err != nil {
		return err
	}
	return h.loseHub(ctx, row)
}

// loseHub stops the control plane of the hub for a time; its programs and the agents go on.
func (h *herd) loseHub(ctx context.Context, row string) error {
	h.enter("hub away")
	if err := h.fleet.Hub().Stop(ctx); err != nil {
		return err
	}
	if err := pause(ctx, h.outage); err != nil {
		return err
	}
	if err := h.fleet.Hub().Start(ctx); err != nil {
		return err
	}
	h.enter("hub back")
	back := time.Now()
	// Every agent renews its Lease every 10 s, and lost its session if it was away for 40 s.
	err := h.await(ctx, "all agents back", func(ctx context.Context) (int, error) {
		ready, err := h.countReady(ctx)
		return min(ready, h.countOpen(ctx)), err
	})
	if err != nil {
		return err
	}
	h.figure(row, "hub back until all agents are", "s", time.Since(back).Seconds())
	h.enter("at rest again")
	return pause(ctx, calmFor)
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// joinAll lets the agents come one after the other, and returns when all have joined.
func (h *herd) joinAll(ctx context.Context) error {
	people, peopleCtx := errgroup.WithContext(ctx)
	for i, a := range h.agents {
		people.Go(func() error {
			if err := pause(peopleCtx, h.over*time.Duration(i)/time.Duration(h.members)); err != nil {
				return err
			}
			return h.join(ctx, a, h.groupOf(i))
		})
	}
	if err := people.Wait(); err != nil {
		return err
	}
	return h.await(ctx, "all agents joined", func(ctx context.Context) (int, error) { return h.countOpen(ctx), nil })
}

// join is what people do: flotilla join, the agent, flotilla accept --wait. ctx is the agent's life.
func (h *herd) join(ctx context.Context, a *agent, labels map[string]string) error {
	a.came = time.Now()
	token, err := registration.CreateToken(ctx, h.admin, a.name, registration.DefaultTokenLife)
	if err != nil {
		return err
	}
	member := &topologyv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: a.name}}
	base := member.DeepCopy()
	member.Labels = labels
	if err := h.admin.Patch(ctx, member, client.MergeFrom(base)); err != nil {
		return fmt.Errorf("put MemberCluster %s into its group: %w", a.name, err)
	}
	config := h.fleet.Hub().RESTConfig()
	join := &credential.Join{
		Name:    a.name,
		UID:     token.UID,
		Token:   token.Token,
		Expires: token.Expires,
		Server:  config.Host,
		CA:      string(config.CAData),
	}
	if err := a.member.equip(ctx, join); err != nil {
		return err
	}
	h.group.Go(func() error { return a.run(ctx) })
	bounded, cancel, explain := h.bound(ctx, a.name+" joins")
	defer cancel()
	var last error
	err = wait.PollUntilContextCancel(bounded, acceptEvery, true, func(ctx context.Context) (bool, error) {
		if _, last = registration.Accept(ctx, h.admin, a.name, ""); errors.Is(last, registration.ErrNoRequest) {
			return false, nil
		}
		return true, last
	})
	if err == nil {
		const often = 20 * time.Millisecond // nothing is asked of the hub
		err = wait.PollUntilContextCancel(
			bounded,
			often,
			true,
			func(ctx context.Context) (bool, error) { return a.open(ctx), nil },
		)
	}
	a.joined = time.Now()
	return explain(err, func() string { return fmt.Sprint(last) + h.programLogs(h.fleet) })
}

// await returns once count counts all agents.
func (h *herd) await(ctx context.Context, what string, count func(context.Context) (int, error)) error {
	bounded, cancel, explain := h.bound(ctx, what)
	defer cancel()
	last := ""
	err := wait.PollUntilContextCancel(bounded, 200*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		n, err := count(ctx)
		last = fmt.Sprintf("%d of %d, %v", n, h.members, err)
		return n == h.members, nil
	})
	return explain(err, func() string { return last + h.programLogs(h.fleet) })
}

// countOpen returns how many agents may carry out orders.
func (h *herd) countOpen(ctx context.Context) int {
	n := 0
	for _, a := range h.agents {
		if a.open(ctx) {
			n++
		}
	}
	return n
}

// countReady returns how many members the hub takes for Ready.
func (h *herd) countReady(ctx context.Context) (int, error) {
	list := &topologyv1alpha1.MemberClusterList{}
	if err := h.admin.List(ctx, list); err != nil {
		return 0, err
	}
	n := 0
	for i := range list.Items {
		if meta.IsStatusConditionTrue(list.Items[i].Status.Conditions, topologyv1alpha1.MemberReady) {
			n++
		}
	}
	return n, nil
}

// enter names what goes on from now on.
func (h *herd) enter(phase string) {
	h.phase.Store(&phase)
	h.step(phase)
}

// tell puts together the rows of the table from what was looked at and the audit log.
func (h *herd) tell(began, end time.Time) error {
	events, err := audit.ReadFile(h.hub.cluster.AuditLog(), audit.Between(began, end))
	if err != nil {
		return err
	}
	h.bench.report.table(
		fmt.Sprintf(
			"%d agents over time: requests per second by the audit log, sent ones as counted by the agents",
			h.members,
		),
		timeline(h.marks, events),
	)
	counts := audit.Count(slices.DeleteFunc(events, func(e audit.Event) bool { return e.Code < 400 || e.Code == 404 }))
	if h.verbose && len(counts) > 0 {
		h.bench.report.table("requests that were refused", counts.String())
	}
	for title, phase := range map[string]string{"joining": "join", "the return": "hub back"} {
		var peak float64
		for _, m := range h.marks {
			if strings.HasPrefix(m.phase, phase) {
				peak = max(peak, m.hub.rss)
			}
		}
		h.figure(fmt.Sprintf("%d agents", h.members), "RSS of the hub in "+title, "MiB", peak)
	}
	return nil
}
