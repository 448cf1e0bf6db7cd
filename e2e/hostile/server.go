package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/crds"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/e2e/hostile/objects"
	"github.com/flotilla-dev/flotilla/hub"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

const (
	// sending is how many requests are under way at a time.
	sending = 8
	// standing is how many of the objects that were taken stand at a time; the oldest is deleted for the next.
	standing = 200
	// comeback is how long the hub may take for a workload after all that, on a busy machine.
	comeback = 5 * time.Minute
	// renewEvery is how often the one member's Lease is renewed, which nobody runs.
	renewEvery = 10 * time.Second
	// userAgent of the requests.
	userAgent = "flotilla-hostile"
)

// site is a hub with its program, and the answers that it gave.
type site struct {
	options
	fleet *fleet.Fleet
	admin client.Client
	http  *http.Client
	host  string

	mu      sync.Mutex
	answers map[int]int
	bad     []error
	stands  []string
	highest float64
}

// atServer sends objects to a real API server with flotilla-hub, and looks at the hub afterwards.
func atServer(ctx context.Context, o options, out io.Writer) (err error) {
	bin, err := fleet.FindBinaries()
	if err != nil {
		return err
	}
	f, err := fleet.Start(ctx, fleet.Config{Bin: bin})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Destroy()) }()
	s := &site{options: o, fleet: f, answers: map[int]int{}}
	if err := s.prepare(ctx); err != nil {
		return err
	}
	renewed, stop := context.WithCancel(ctx)
	defer stop()
	go s.renew(renewed)
	began, pid := time.Now(), f.Pid(fleet.HubProgram)
	if err := s.send(ctx); err != nil {
		return err
	}
	var codes []string
	for _, code := range slices.Sorted(maps.Keys(s.answers)) {
		codes = append(codes, fmt.Sprintf("%d: %d", code, s.answers[code]))
	}
	fmt.Fprintf(out, "at the API server: %d objects in %s; answers %s; the hub had at most %.0f MiB; findings: %d\n",
		o.server, time.Since(began).Round(time.Second), strings.Join(codes, ", "), s.highest, len(s.bad))
	return errors.Join(append(s.bad[:min(len(s.bad), mostFindings)], s.judge(ctx, pid))...)
}

// prepare installs the definitions, starts the hub, and makes one member and a federated namespace.
func (s *site) prepare(ctx context.Context) error {
	if err := s.fleet.Hub().InstallCRDs(ctx, crds.FS); err != nil {
		return err
	}
	programs, err := filepath.Abs(s.programs)
	if err != nil {
		return err
	}
	if err := s.fleet.RunHub(ctx, programs); err != nil {
		return err
	}
	scheme, err := hub.Scheme()
	if err != nil {
		return err
	}
	config := rest.CopyConfig(s.fleet.Hub().RESTConfig())
	config.UserAgent, config.QPS = userAgent, -1
	if s.admin, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	if s.http, err = rest.HTTPClientFor(config); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	s.host = config.Host
	member := &topology.MemberCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "lone"},
		Spec:       topology.MemberClusterSpec{Accepted: true, ClusterID: "id-lone"},
	}
	for _, o := range []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace,
		Labels: map[string]string{topology.LabelFederated: "true"}}}, member} {
		if err := s.admin.Create(ctx, o); err != nil {
			return fmt.Errorf("create %T: %w", o, err)
		}
	}
	member.Status = topology.MemberClusterStatus{
		ClusterID: "id-lone",
		Session:   1,
		Zones:     []topology.Zone{{Name: "a", Nodes: 3, Ready: 3}},
	}
	if err := s.admin.Status().Update(ctx, member); err != nil {
		return fmt.Errorf("report the inventory of the member: %w", err)
	}
	return nil
}

// renew plays the agent of the one member, as far as its Lease.
func (s *site) renew(ctx context.Context) {
	tick := time.NewTicker(renewEvery)
	defer tick.Stop()
	for {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: wire.MemberNamespace("lone"), Name: "lone"}}
		id, now := "id-lone", metav1.NewMicroTime(time.Now())
		lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: &id, RenewTime: &now}
		if patch, err := json.Marshal(map[string]any{"spec": lease.Spec}); err == nil {
			// A Lease that cannot be renewed now is the next time; the hub makes the namespace.
			if s.admin.Patch(ctx, lease.DeepCopy(), client.RawPatch("application/merge-patch+json", patch)) != nil {
				_ = s.admin.Create(ctx, lease)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// send sends all objects, some at a time.
func (s *site) send(ctx context.Context) error {
	generator, err := objects.New(s.seed + 1_000_000)
	if err != nil {
		return err
	}
	next := make(chan int)
	objectsOf := make(chan objects.Object)
	var senders sync.WaitGroup
	for range sending {
		senders.Go(func() {
			for o := range objectsOf {
				s.one(ctx, o, <-next)
			}
		})
	}
	for i := range s.server {
		if ctx.Err() != nil {
			break
		}
		objectsOf <- generator.Next()
		next <- i
	}
	close(objectsOf)
	senders.Wait()
	return ctx.Err()
}

// one sends an object: to be kept, as the status of one that stands, or to be read in the other version.
func (s *site) one(ctx context.Context, o objects.Object, i int) {
	body, name := o.JSON, ""
	tree := map[string]any{}
	const raw = 4 // of so many objects one is sent with the name that it has
	if i%raw != 0 && json.Unmarshal(o.JSON, &tree) == nil && tree != nil {
		name = "h-" + strconv.Itoa(i)
		meta, _ := tree["metadata"].(map[string]any)
		if meta == nil {
			meta = map[string]any{}
		}
		meta["name"] = name
		delete(meta, "namespace")
		tree["metadata"] = meta
		if again, err := json.Marshal(tree); err == nil {
			body = again
		}
	}
	path := s.host + "/apis/" + o.APIVersion + "/"
	if o.Namespaced {
		path += "namespaces/" + namespace + "/"
	}
	path += o.Plural
	code := s.ask(ctx, o, http.MethodPost, path, body)
	if code != http.StatusCreated || name == "" {
		return
	}
	if older, newer := "/v1alpha1/", "/v1beta1/"; strings.HasPrefix(o.APIVersion, "apps.kruise.io/") {
		s.ask(ctx, o, http.MethodGet, strings.Replace(path, older, newer, 1)+"/"+name, nil)
		s.ask(ctx, o, http.MethodGet, strings.Replace(path, newer, older, 1)+"/"+name, nil)
	}
	if tree["status"] != nil {
		if body, err := json.Marshal(map[string]any{"status": tree["status"]}); err == nil {
			s.ask(ctx, o, http.MethodPatch, path+"/"+name+"/status", body)
		}
	}
	s.mu.Lock()
	s.stands = append(s.stands, path+"/"+name)
	gone := ""
	if len(s.stands) > standing {
		gone, s.stands = s.stands[0], s.stands[1:]
	}
	s.mu.Unlock()
	if gone != "" {
		s.ask(ctx, o, http.MethodDelete, gone, nil)
	}
}

// ask sends one request, counts its answer, and notes a 5xx.
func (s *site) ask(ctx context.Context, o objects.Object, method, url string, body []byte) int {
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		s.note(fmt.Errorf("%s %s: %w", method, url, err))
		return 0
	}
	request.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		request.Header.Set("Content-Type", "application/merge-patch+json")
	}
	answer, err := s.http.Do(request)
	if err != nil {
		if ctx.Err() == nil {
			s.note(fmt.Errorf("%s %s: %w", method, url, err))
		}
		return 0
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body) // an answer that is cut off is judged by its code
	s.mu.Lock()
	s.answers[answer.StatusCode]++
	many := s.answers[answer.StatusCode]
	s.mu.Unlock()
	if answer.StatusCode >= http.StatusInternalServerError {
		s.note(fmt.Errorf("%s %s answers %d: %.600s\n%s: %.2000s", method, url, answer.StatusCode, text, o.Kind, body))
	}
	const often = 200
	if many%often == 0 {
		s.measure()
	}
	return answer.StatusCode
}

func (s *site) note(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bad = append(s.bad, err)
}

// measure notes how much memory the hub has.
func (s *site) measure() {
	resident := residentMiB(s.fleet.Pid(fleet.HubProgram))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.highest = max(s.highest, resident)
}

// residentMiB is what a process has in memory, 0 where that is not known.
func residentMiB(pid int) float64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if text, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(text), " kB"), 64)
			if err != nil {
				return 0
			}
			const kibInMiB = 1024
			return kib / kibInMiB
		}
	}
	return 0
}

// judge looks at the hub afterwards: the same process, no panic, memory within the limit, and a workload is placed as
// if nothing had been.
func (s *site) judge(ctx context.Context, pid int) error {
	var all []error
	if now := s.fleet.Pid(fleet.HubProgram); now != pid || !s.fleet.Running(fleet.HubProgram) {
		all = append(
			all,
			fmt.Errorf(
				"the hub ended meanwhile: its process was %d, and is %d; the end of its log:\n%s",
				pid,
				now,
				s.fleet.LogTail(fleet.HubProgram, 40),
			),
		)
	}
	if s.highest > s.mostResidentMiB {
		all = append(all, fmt.Errorf("the hub had %.0f MiB, and may have %.0f", s.highest, s.mostResidentMiB))
	}
	panics, err := s.panics(ctx)
	if err != nil || panics > 0 {
		all = append(
			all,
			fmt.Errorf(
				"the hub panicked %v times: %w; the end of its log:\n%s",
				panics,
				err,
				s.fleet.LogTail(fleet.HubProgram, 60),
			),
		)
	}
	return errors.Join(append(all, s.works(ctx))...)
}

// panics sums what the hub counts as panics, of controllers and of webhooks.
func (s *site) panics(ctx context.Context) (float64, error) {
	url, err := s.fleet.MetricsURL(fleet.HubProgram)
	if err != nil {
		return 0, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, fmt.Errorf("read the hub's metrics: %w", err)
	}
	defer answer.Body.Close()
	sum, lines := 0.0, bufio.NewScanner(answer.Body)
	for lines.Scan() {
		name, value, ok := strings.Cut(lines.Text(), " ")
		if ok && strings.Contains(name, "panics_total") && !strings.HasPrefix(name, "#") {
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return 0, fmt.Errorf("read %s: %w", name, err)
			}
			sum += n
		}
	}
	return sum, lines.Err()
}

// works wants a well-meant workload in a namespace of its own to be placed.
func (s *site) works(ctx context.Context) error {
	const quiet = "quiet"
	if err := s.admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: quiet,
		Labels: map[string]string{topology.LabelFederated: "true"}}}); err != nil {
		return fmt.Errorf("create namespace %s: %w", quiet, err)
	}
	policy := &topology.FederationPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: quiet, Name: "lone"}}
	policy.Spec.Workloads = []topology.WorkloadSelector{{Kind: "CloneSet"}}
	policy.Spec.Clusters.Names = []string{"lone"}
	if err := s.admin.Create(ctx, policy); err != nil {
		return fmt.Errorf("create a policy: %w", err)
	}
	set := &unstructured.Unstructured{}
	for _, o := range objects.Bases() {
		if o.Kind == "CloneSet" && strings.HasSuffix(o.APIVersion, "v1beta1") {
			if err := json.Unmarshal(o.JSON, &set.Object); err != nil {
				return err
			}
		}
	}
	set.SetNamespace(quiet)
	if err := s.admin.Create(ctx, set); err != nil {
		return fmt.Errorf("create a CloneSet: %w", err)
	}
	placed := &topology.WorkloadPlacement{}
	err := wait.PollUntilContextTimeout(ctx, time.Second, comeback, true, func(ctx context.Context) (bool, error) {
		err := s.admin.Get(ctx, client.ObjectKey{Namespace: quiet, Name: "cloneset-" + set.GetName()}, placed)
		return err == nil && len(placed.Spec.Cells) == 1 &&
				placed.Spec.Cells[0].Replicas == placed.Spec.Replicas, client.IgnoreNotFound(
				err,
			)
	})
	if err != nil {
		return fmt.Errorf(
			"a well-meant CloneSet is not placed any more: %w; the end of the hub's log:\n%s",
			err,
			s.fleet.LogTail(fleet.HubProgram, 20),
		)
	}
	return nil
}
