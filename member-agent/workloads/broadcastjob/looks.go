package broadcastjob

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/completions"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/endpoint"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
	"github.com/flotilla-dev/flotilla/topology/checks"
)

const (
	// lookEvery is how often checks and restarts are looked at.
	lookEvery = 10 * time.Second
	// askTimeout is how long an address may take. A pass waits for it.
	askTimeout = 5 * time.Second
	// readsAtOnce is how many nodes are read in parallel.
	readsAtOnce = 16
	// reasonInvalidCheck is why a job stands still with a check that cannot hold.
	reasonInvalidCheck = "InvalidCheck"
	// refusal says why the agent does not ask local addresses.
	refusal = "is of the agent's own machine or link, or gives credentials of a cloud, which no job may ask: name a " +
		"Service or another host"
)

// looks are the results of the checks of one batch.
type looks struct {
	// What they are about.
	generation int64
	batch      int
	settled    time.Time

	at      time.Time
	results map[string]Result // by check
	// over: the job waits for nodes, and nothing is looked at until the next batch.
	over bool
}

// of makes the looks those of the batch under way.
func (l *looks) of(job *v1beta1.BroadcastJob, p completions.Progress) {
	if l.generation != job.Generation || l.batch != p.Batch || !l.settled.Equal(p.Settled) {
		*l = looks{generation: job.Generation, batch: p.Batch, settled: p.Settled}
	}
}

// Result is what was found last of a check: why it does not hold, "" if it does, and since when.
type Result struct {
	Why   string
	Since time.Time
}

// look looks at the checks whose result is not a pod's, if that is due.
func (r *Reconciler) look(ctx context.Context, s *scope) {
	f, l := &s.facts, &s.Memory.looks
	if !f.checking() {
		return
	}
	if l.at.IsZero() || f.Now.Sub(l.at) >= lookEvery {
		l.at = f.Now
		found := r.results(ctx, s)
		for name, result := range found {
			if before := l.results[name]; result.Why != "" && before.Why != "" {
				result.Since = before.Since
			}
			found[name] = result
		}
		l.results = found
	}
	s.Sooner(max(time.Millisecond, l.at.Add(lookEvery).Sub(f.Now)))
	f.Results = l.results
}

// results looks at everything once. What cannot be read does not hold.
func (r *Reconciler) results(ctx context.Context, s *scope) map[string]Result {
	all := batchesOf(s.job).Checks
	nodes := s.facts.batchNodes()
	onNodes := make([]map[string]string, len(nodes)) // why checks do not hold, by check
	asked := make([]string, len(all))
	var wg sync.WaitGroup
	slots := make(chan struct{}, readsAtOnce)
	for i, node := range nodes {
		slots <- struct{}{}
		wg.Go(func() {
			onNodes[i] = r.lookAt(ctx, s.job, node)
			<-slots
		})
	}
	for i := range all {
		if all[i].HTTP != nil {
			wg.Go(func() { asked[i] = r.ask(ctx, all[i].HTTP) })
		}
	}
	wg.Wait()
	found := map[string]Result{}
	for i := range all {
		check := &all[i]
		switch {
		case check.Expression != "":
			found[check.Name] = Result{Why: worst(nodes, onNodes, check.Name), Since: s.facts.Now}
		case check.HTTP != nil:
			found[check.Name] = Result{Why: asked[i], Since: s.facts.Now}
		}
	}
	return found
}

// worst says on which node a check does not hold first, and on how many others, "" if it holds on all.
func worst(nodes []string, onNodes []map[string]string, check string) (why string) {
	others := 0
	for i, node := range nodes {
		switch text := onNodes[i][check]; {
		case text == "":
		case why == "":
			why = fmt.Sprintf("node %s: %s", node, text)
		default:
			others++
		}
	}
	if others > 0 {
		why += fmt.Sprintf("; and on %d other nodes", others)
	}
	return why
}

// lookAt returns why expressions do not hold of a node and the other pods on it, by check.
func (r *Reconciler) lookAt(ctx context.Context, job *v1beta1.BroadcastJob, name string) map[string]string {
	var variables map[string]any
	var err error
	why := map[string]string{}
	all := batchesOf(job).Checks
	for i := range all {
		check := &all[i]
		if check.Expression == "" {
			continue
		}
		if variables == nil && err == nil {
			variables, err = r.variables(ctx, job, name)
		}
		if err != nil {
			why[check.Name] = err.Error()
			continue
		}
		why[check.Name] = checks.Unmet(check.Expression, variables, checks.CorrectCheck)
	}
	return why
}

// variables reads a node and the other pods on it from the API server: the cache keeps only parts of them.
func (r *Reconciler) variables(ctx context.Context, job *v1beta1.BroadcastJob, name string) (map[string]any, error) {
	node, list := &corev1.Node{}, &corev1.PodList{}
	if err := r.Live.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		return nil, fmt.Errorf("read the node: %w", err)
	}
	// Its watch cache is new enough, and knows the pods of a node.
	err := r.Live.List(ctx, list, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "0"},
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", name)})
	if err != nil {
		return nil, fmt.Errorf("list the pods on the node: %w", err)
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(node)
	if err != nil {
		return nil, fmt.Errorf("encode the node: %w", err)
	}
	others := []any{}
	for i := range list.Items {
		if metav1.IsControlledBy(&list.Items[i], job) {
			continue
		}
		pod, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&list.Items[i])
		if err != nil {
			return nil, fmt.Errorf("encode pod %s: %w", list.Items[i].Name, err)
		}
		others = append(others, pod)
	}
	return map[string]any{"node": object, "pods": others}, nil
}

// ask asks an address, and returns why the check does not hold, "" if it does.
func ask(ctx context.Context, q *v1beta1.BatchHTTP) string {
	answer, err := endpoint.Ask(ctx, endpoint.Question{URL: q.URL, CABundle: q.CABundle, Timeout: askTimeout,
		UserAgent: "flotilla-agent", Refusal: refusal, Remedy: checks.CorrectCheck})
	if err != nil {
		return err.Error()
	}
	return judge(q, answer)
}

// judge returns why the check does not hold of an answer, "" if it does.
func judge(q *v1beta1.BatchHTTP, answer endpoint.Answer) string {
	expression := q.Expression
	if expression == "" {
		expression = "status == 200"
	}
	why := checks.OfAnswer(expression, answer.Status, answer.Body, checks.CorrectCheck)
	if why == "" {
		return ""
	}
	return fmt.Sprintf("%s answered %d: %s", endpoint.Shown(q.URL), answer.Status, why)
}

// countRestarts finds nodes of the batch on which other pods restarted too often since the job's pod was created.
func (r *Reconciler) countRestarts(s *scope) error {
	f := &s.facts
	batches := batchesOf(s.job)
	if batches == nil || batches.MaxRestarts == nil || !f.batchUnderWay() {
		return nil
	}
	s.Sooner(lookEvery)
	for _, pod := range f.Pods {
		text, known := pod.Annotations[v1beta1.AnnotationRestarts]
		if !known || batchOf(pod) != f.Progress.Batch {
			continue
		}
		others, err := r.others(s.job, podset.NodeOf(pod))
		if err != nil {
			return err
		}
		if finding := restarted(podset.NodeOf(pod), text, others, int(*batches.MaxRestarts)); finding != nil {
			f.Restarts = append(f.Restarts, *finding)
		}
	}
	return nil
}

// others returns the pods on a node that are not the job's.
func (r *Reconciler) others(job *v1beta1.BroadcastJob, node string) (out []*corev1.Pod, err error) {
	all, err := r.Pods.OnNode(node)
	for _, pod := range all {
		if !metav1.IsControlledBy(pod, job) {
			out = append(out, pod)
		}
	}
	return out, err
}

// restarted compares the restarts of pods on a node with those before; nil is not more than most.
func restarted(node, before string, pods []*corev1.Pod, most int) *completions.Finding {
	had := map[string]int{}
	for entry := range strings.SplitSeq(before, ",") {
		uid, count, _ := strings.Cut(entry, "=")
		had[uid], _ = strconv.Atoi(count)
	}
	sum, largest, name := 0, 0, ""
	for _, pod := range pods {
		more := max(0, restartsOf(pod)-had[string(pod.UID)])
		sum += more
		full := pod.Namespace + "/" + pod.Name
		if more > largest || more == largest && more > 0 && full < name {
			largest, name = more, full
		}
	}
	if sum <= most {
		return nil
	}
	return &completions.Finding{Cause: reasonRestarts, Message: fmt.Sprintf(
		"containers of other pods on node %s restarted %d times since the job's pod was created there, those of pod %s %d "+
			"times; maxRestarts is %d", node, sum, name, largest, most)}
}

// restartsBefore writes how often containers of pods have restarted, for AnnotationRestarts.
func restartsBefore(pods []*corev1.Pod) string {
	var out []string
	for _, pod := range pods {
		if n := restartsOf(pod); n > 0 {
			out = append(out, fmt.Sprintf("%s=%d", pod.UID, n))
		}
	}
	return strings.Join(out, ",")
}
