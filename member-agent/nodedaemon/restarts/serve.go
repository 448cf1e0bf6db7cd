package restarts

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/nodedaemon"
	"github.com/flotilla-dev/flotilla/member-agent/nodedaemon/cri"
)

const (
	// lookAgain is how often the containers of a pod are listed while a request waits for them: no event reports them.
	lookAgain = 2 * time.Second
	// firstBackoff and lastBackoff bound the time between failed passes.
	firstBackoff = 100 * time.Millisecond
	lastBackoff  = 10 * time.Second
	// workers is how many pods are worked on at the same time. Stops run beside them.
	workers = 4
)

// What kubelets write on containers.
const (
	labelPodNamespace      = "io.kubernetes.pod.namespace"
	labelPodUID            = "io.kubernetes.pod.uid"
	labelContainerName     = "io.kubernetes.container.name"
	annotationRestartCount = "io.kubernetes.container.restartCount"
)

// Part serves the ContainerRecreateRequests of the node.
func Part() nodedaemon.Part {
	return nodedaemon.Part{
		Name: "restarts", AddToScheme: v1beta1.AddToScheme,
		Reads: func(node string) map[client.Object]cache.ByObject {
			return map[client.Object]cache.ByObject{
				&v1beta1.ContainerRecreateRequest{}: {Label: labels.SelectorFromSet(labels.Set{v1beta1.LabelCRRNodeName: node})},
			}
		},
		Add: add,
	}
}

// add adds the controller of the node's requests. Its requests are pods: the namespace, and the UID as the name.
func add(mgr manager.Manager, env nodedaemon.Env) error {
	s := &server{
		node: env.Node, client: env.Client, runtime: env.Runtime, clock: env.Clock, log: env.Log,
		stopper: &stopper{runtime: env.Runtime, live: env.Live, events: env.Events, clock: env.Clock},
		pods:    map[types.UID]*memory{}, ended: make(chan event.GenericEvent),
	}
	if err := mgr.Add(manager.RunnableFunc(s.run)); err != nil {
		return fmt.Errorf("add the stops of containers: %w", err)
	}
	toPod := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{
			Namespace: object.GetNamespace(), Name: object.GetLabels()[v1beta1.LabelCRRPodUID],
		}}}
	})
	err := ctrl.NewControllerManagedBy(mgr).Named("restarts").
		Watches(&v1beta1.ContainerRecreateRequest{}, toPod).
		WatchesRawSource(source.Channel(s.ended, toPod)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](
				firstBackoff, lastBackoff),
		}).
		Complete(s)
	if err != nil {
		return fmt.Errorf("set up the controller of ContainerRecreateRequests: %w", err)
	}
	return nil
}

// server carries plans out.
type server struct {
	node    string
	client  client.Client
	runtime internalapi.RuntimeService
	clock   clock.PassiveClock
	log     logr.Logger
	stopper *stopper
	// ended has an event for each stop that ended.
	ended chan event.GenericEvent

	mu   sync.Mutex
	pods map[types.UID]*memory
	// stops is the context of the stops, nil until the manager runs.
	stops   context.Context //nolint:containedctx // stops outlive the pass that begins them
	running sync.WaitGroup
}

// memory is what is known of the requests of a pod beside their statuses. It is lost when the daemon ends.
type memory struct {
	running *StopKey
	ended   map[StopKey]Outcome
	unready map[types.UID]time.Time
	// seen is when a container was first seen running, by its ID.
	seen map[string]time.Time
}

// run gives stops their context, and waits for them when the daemon ends.
func (s *server) run(ctx context.Context) error {
	s.mu.Lock()
	s.stops = ctx
	s.mu.Unlock()
	<-ctx.Done()
	s.running.Wait()
	return nil
}

// Reconcile makes one pass over the requests of a pod.
func (s *server) Reconcile(ctx context.Context, of reconcile.Request) (reconcile.Result, error) {
	uid := types.UID(of.Name)
	requests, err := s.requests(ctx, of.Namespace, uid)
	if err != nil {
		return reconcile.Result{}, err
	}
	active := false
	for _, request := range requests {
		active = active || request.Status.Phase != v1beta1.CRRCompleted
	}
	if !active && !s.reports(uid) {
		s.forget(uid)
		return reconcile.Result{}, nil
	}
	facts := Facts{Requests: requests, Now: s.clock.Now()}
	// What ended is read before the containers are listed: the list shows the containers that were stopped.
	s.recall(uid, &facts)
	if active {
		if facts.Containers, err = s.containers(ctx, of.Namespace, uid, requests); err != nil {
			return reconcile.Result{}, err
		}
	}
	s.see(uid, &facts)
	plan := Make(facts)
	for _, update := range plan.Updates {
		if err := s.write(ctx, update); err != nil {
			return reconcile.Result{}, err
		}
	}
	if !active {
		s.forget(uid)
		return reconcile.Result{}, nil
	}
	begun := plan.Stop != nil && s.begin(uid, requests, *plan.Stop)
	if !begun && facts.Running == nil {
		plan.sooner(lookAgain)
	}
	return reconcile.Result{RequeueAfter: plan.Wait}, nil
}

// requests returns the requests of the pod.
func (s *server) requests(
	ctx context.Context, namespace string, uid types.UID,
) ([]*v1beta1.ContainerRecreateRequest, error) {
	var list v1beta1.ContainerRecreateRequestList
	err := s.client.List(ctx, &list, client.InNamespace(namespace),
		client.MatchingLabels{v1beta1.LabelCRRPodUID: string(uid), v1beta1.LabelCRRNodeName: s.node})
	if err != nil {
		return nil, fmt.Errorf("list the ContainerRecreateRequests of pod %s: %w", uid, err)
	}
	requests := make([]*v1beta1.ContainerRecreateRequest, len(list.Items))
	for i := range list.Items {
		requests[i] = &list.Items[i]
	}
	return requests, nil
}

// containers returns the newest container of each name in the pod. A pod of another namespace is not looked at,
// whatever the label of a request says.
func (s *server) containers(
	ctx context.Context, namespace string, uid types.UID, requests []*v1beta1.ContainerRecreateRequest,
) (map[string]Container, error) {
	ctx = cri.Quiet(ctx) // errors are returned
	listed, err := s.runtime.ListContainers(ctx, &runtimeapi.ContainerFilter{LabelSelector: map[string]string{
		labelPodUID: string(uid), labelPodNamespace: namespace,
	}})
	if err != nil {
		return nil, fmt.Errorf("list the containers of pod %s: %w", uid, err)
	}
	newest := map[string]*runtimeapi.Container{}
	for _, c := range listed {
		name := c.Labels[labelContainerName]
		if other := newest[name]; other == nil || c.CreatedAt > other.CreatedAt {
			newest[name] = c
		}
	}
	precise := false
	for _, request := range requests {
		precise = precise || strategyOf(request).MinStartedSeconds > 0
	}
	containers := map[string]Container{}
	for name, c := range newest {
		container := Container{ID: c.Id, Running: c.State == runtimeapi.ContainerState_CONTAINER_RUNNING,
			Restarts: restartsOf(c), StartedAt: time.Unix(0, c.CreatedAt)}
		if precise && container.Running {
			answer, err := s.runtime.ContainerStatus(ctx, c.Id, false)
			if err != nil {
				return nil, fmt.Errorf("read container %s: %w", c.Id, err)
			}
			container.StartedAt = time.Unix(0, answer.GetStatus().GetStartedAt())
		}
		containers[name] = container
	}
	return containers, nil
}

// restartsOf returns the restart count that the kubelet gave the container.
func restartsOf(c *runtimeapi.Container) int32 {
	if count, err := strconv.ParseInt(c.Annotations[annotationRestartCount], 10, 32); err == nil {
		return int32(count)
	}
	return int32(min(c.GetMetadata().GetAttempt(), 1<<30))
}

// reports reports whether a stop of the pod runs or has ended, so that its request may have to say so.
func (s *server) reports(uid types.UID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.pods[uid]
	return known != nil && (known.running != nil || len(known.ended) > 0)
}

// recall adds to the facts which stops run and have ended.
func (s *server) recall(uid types.UID, facts *Facts) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.pods[uid]
	if known == nil {
		known = &memory{ended: map[StopKey]Outcome{}, unready: map[types.UID]time.Time{}, seen: map[string]time.Time{}}
		s.pods[uid] = known
	}
	facts.Running, facts.Ended = known.running, map[StopKey]Outcome{}
	for key, outcome := range known.ended {
		facts.Ended[key] = outcome
	}
}

// see adds to the facts when the daemon first saw what they say.
func (s *server) see(uid types.UID, facts *Facts) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.pods[uid]
	seen, unready := map[string]time.Time{}, map[types.UID]time.Time{}
	for name, c := range facts.Containers {
		if !c.Running {
			continue
		}
		at, ok := known.seen[c.ID]
		if !ok {
			at = facts.Now
		}
		seen[c.ID], c.Seen = at, at
		facts.Containers[name] = c
	}
	for _, request := range facts.Requests {
		if at, ok := known.unready[request.UID]; ok {
			unready[request.UID] = at
		} else if len(request.Status.Conditions) > 0 {
			unready[request.UID] = facts.Now
		}
	}
	known.seen, known.unready, facts.Unready = seen, unready, unready
}

// forget drops what is known of a pod without requests to serve, unless a stop still runs.
func (s *server) forget(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.pods[uid]; known != nil && known.running == nil {
		delete(s.pods, uid)
	}
}

// write writes a status, unless the request changed meanwhile.
func (s *server) write(ctx context.Context, update Update) error {
	changed := update.Request.DeepCopy()
	changed.Status = update.Status
	patch := client.MergeFromWithOptions(update.Request, client.MergeFromWithOptimisticLock{})
	err := s.client.Status().Patch(ctx, changed, patch, client.FieldOwner(nodedaemon.Program))
	if err != nil {
		return fmt.Errorf("write the status of ContainerRecreateRequest %s: %w", update.Request.Name, err)
	}
	return nil
}

// begin begins a stop, which runs beside the passes. Its end makes the next pass. It reports false if no stop can
// begin now.
func (s *server) begin(uid types.UID, requests []*v1beta1.ContainerRecreateRequest, stop Stop) bool {
	var served *v1beta1.ContainerRecreateRequest
	for _, request := range requests {
		if request.UID == stop.Request {
			served = request
		}
	}
	pod := podOf{types.NamespacedName{Namespace: served.Namespace, Name: served.Spec.PodName}, uid}
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.pods[uid]
	if known.running != nil || s.stops == nil || s.stops.Err() != nil {
		return false
	}
	known.running = &stop.StopKey
	ctx := s.stops
	s.running.Go(func() {
		outcome, ended := s.stopper.stop(ctx, pod, served.Name, stop)
		if ctx.Err() != nil {
			return // the daemon ends: the status says what was being stopped
		}
		s.log.Info("asked the runtime to stop a container", "pod", pod.NamespacedName, "container", stop.Container,
			"id", stop.ID, "request", served.Name, "ended", ended, "failure", outcome.Failure)
		s.mu.Lock()
		known.running = nil
		if ended {
			known.ended[stop.StopKey] = outcome
		}
		s.mu.Unlock()
		select {
		case s.ended <- event.GenericEvent{Object: served}:
		case <-ctx.Done():
		}
	})
	return true
}
