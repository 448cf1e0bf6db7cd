package imagepulljob_test

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/apiserver"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/imagelistpulljob"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/imagepulljob"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/nodeimage"
)

// limit is how long anything may take on a busy machine.
const limit = 90 * time.Second

// shifted is a clock that can be set ahead.
type shifted struct{ ahead atomic.Int64 }

func (c *shifted) Now() time.Time                  { return time.Now().Add(time.Duration(c.ahead.Load())) }
func (c *shifted) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// writes counts the writes of NodeImages, by the name of the writer.
type writes struct {
	mu sync.Mutex
	of map[string]int
}

func (w *writes) count(config *rest.Config, writer string) *rest.Config {
	out := rest.CopyConfig(config)
	out.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			if request.Method != http.MethodGet && strings.Contains(request.URL.Path, "/nodeimages") {
				w.mu.Lock()
				w.of[writer]++
				w.mu.Unlock()
			}
			return next.RoundTrip(request)
		})
	})
	return out
}

func (w *writes) sum() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, of := range w.of {
		n += of
	}
	return n
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// world is one cluster in which the controllers run, with a daemon for all nodes.
type world struct {
	*testing.T
	client.Client
	config *rest.Config
	clock  *shifted
	writes *writes
	whole  *world // what begins in it goes on after a subtest
}

// daemonEvery is how often the daemon of a node writes its status at most.
const daemonEvery = 300 * time.Millisecond

// daemon speaks for the daemons of all nodes. It fails to pull images whose name has "broken" in it on nodes whose name
// ends with 0, and says nothing new about those with "silent" in it.
type daemon struct{ client client.Client }

func (d *daemon) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	image := &v1beta1.NodeImage{}
	if err := d.client.Get(ctx, request.NamespacedName, image); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	status := v1beta1.NodeImageStatus{Conditions: image.Status.Conditions}
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue,
		Reason: "Connected"})
	for name, spec := range image.Spec.Images {
		for _, tag := range spec.Tags {
			s := v1beta1.ImageTagStatus{Tag: tag.Tag, Version: tag.Version, Phase: v1beta1.ImagePhaseSucceeded,
				CompletionTime: tag.CreatedAt}
			switch {
			case strings.Contains(name, "silent"):
				if have := image.Status.ImageStatuses[name]; len(have.Tags) == 0 {
					continue
				}
				s = image.Status.ImageStatuses[name].Tags[0]
			case strings.Contains(name, "broken") && strings.HasSuffix(image.Name, "0"):
				s.Phase, s.Message = v1beta1.ImagePhaseFailed, "no such manifest"
			}
			if status.ImageStatuses == nil {
				status.ImageStatuses = map[string]v1beta1.ImageStatus{}
			}
			of := status.ImageStatuses[name]
			of.Tags = append(of.Tags, s)
			status.ImageStatuses[name] = of
		}
	}
	if fmt.Sprint(status) == fmt.Sprint(image.Status) {
		return reconcile.Result{}, nil
	}
	image.Status = status
	err := d.client.Status().Update(ctx, image)
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: daemonEvery}, nil
	}
	return reconcile.Result{}, client.IgnoreNotFound(err)
}

// slowly enqueues a NodeImage as rarely as a daemon reports.
func slowly() handler.EventHandler {
	add := func(object client.Object, q workload.Queue) {
		q.AddAfter(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(object)}, daemonEvery)
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q workload.Queue) { add(e.Object, q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q workload.Queue) { add(e.ObjectNew, q) },
	}
}

// agent runs the controllers until stop is called.
func (w *world) agent() (stop func()) {
	w.Helper()
	_, stop = apiserver.Run(w, w.writes.count(w.config, "agent"), func(ctx context.Context, mgr ctrl.Manager) error {
		env := &workload.Env{Manager: mgr, Clock: w.clock, PullSecrets: true}
		if err := nodeimage.Add(ctx, env); err != nil {
			return err
		}
		if err := imagelistpulljob.Add(ctx, env); err != nil {
			return err
		}
		return imagepulljob.Add(ctx, env)
	})
	return stop
}

var nodesFlag = flag.Int("nodes", 100, "how many `nodes` the cluster has, at least 100")

// TestOnAServer runs all scenarios on one API server.
func TestOnAServer(t *testing.T) {
	ctrl.SetLogger(logr.Discard())
	config := apiserver.ForTest(t, "nodeimages.apps.kruise.io", "imagepulljobs.apps.kruise.io",
		"imagelistpulljobs.apps.kruise.io")
	config.QPS = -1
	w := &world{T: t, config: config, clock: &shifted{}, writes: &writes{of: map[string]int{}}}
	w.whole = w
	var err error
	if w.Client, err = client.New(config, client.Options{Scheme: apiserver.Scheme(t)}); err != nil {
		t.Fatal(err)
	}
	nodes := *nodesFlag
	for i := range nodes {
		w.node(fmt.Sprintf("n%03d", i))
	}
	w.must(w.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "flotilla-system"}}))
	stop := w.agent()
	w.eventually("every node has a NodeImage", func() string {
		var list v1beta1.NodeImageList
		w.must(w.List(w.Context(), &list))
		if len(list.Items) != nodes {
			return fmt.Sprint(len(list.Items))
		}
		return ""
	})
	// Without a report of any daemon, pods pull.
	t.Run("pods pull where no daemon has ever reported", func(t *testing.T) { w.in(t).podsPull() })
	t.Run("pods pull the image that a job has now", func(t *testing.T) { w.in(t).anotherImageByPods() })
	t.Run("a quota that refuses a pod is named", func(t *testing.T) { w.in(t).quota() })
	apiserver.Run(t, w.writes.count(config, "daemon"), func(_ context.Context, mgr ctrl.Manager) error {
		return ctrl.NewControllerManagedBy(mgr).Named("daemon").Watches(&v1beta1.NodeImage{}, slowly()).
			Complete(&daemon{mgr.GetClient()})
	})
	w.eventually("the daemons have reported", func() string {
		var list v1beta1.NodeImageList
		w.must(w.List(w.Context(), &list))
		for i := range list.Items {
			if len(list.Items[i].Status.Conditions) == 0 {
				return list.Items[i].Name
			}
		}
		return ""
	})
	t.Run("ten images on all nodes take few writes", func(t *testing.T) { w.in(t).many(nodes) })
	t.Run("a node that fails is named", func(t *testing.T) { w.in(t).fails() })
	t.Run("an image that is corrected is pulled on all nodes", func(t *testing.T) { w.in(t).anotherImage() })
	t.Run("a list of images has a job for each", func(t *testing.T) { w.in(t).list() })
	t.Run("a job is deleted after its time to live", func(t *testing.T) { w.in(t).expires() })
	t.Run("a deleted job leaves nothing", func(t *testing.T) { w.in(t).leaves() })
	t.Run("pull secrets are copied while jobs run", func(t *testing.T) { w.in(t).secrets() })
	t.Run("nodes come and go", func(t *testing.T) { w.in(t).comeAndGo() })
	t.Run("a job waits for a node that it selects", func(t *testing.T) { w.in(t).waits() })
	t.Run("an agent that starts again asks no node twice", func(t *testing.T) { w.in(t).restarts(stop) })
	t.Run("a silent daemon fails after ten minutes", func(t *testing.T) { w.in(t).silent() })
}

func (w *world) in(t *testing.T) *world {
	out := *w
	out.T = t
	return &out
}

func (w *world) eventually(what string, check func() string) {
	w.Helper()
	apiserver.Eventually(w, limit, what, check)
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// node creates a node that has been ready for an hour.
func (w *world) node(name string) {
	w.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"name": name}}}
	w.must(w.Create(w.Context(), node))
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue,
		LastTransitionTime: metav1.NewTime(time.Now().Add(-time.Hour))}}
	w.must(w.Status().Update(w.Context(), node))
}

// pull creates a job that pulls an image on all nodes at once.
func (w *world) pull(image string, change ...func(*v1beta1.ImagePullJob)) string {
	w.Helper()
	job := &v1beta1.ImagePullJob{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "pull-"}}
	job.Spec.Image, job.Spec.Parallelism = image, new(intstr.FromString("100%"))
	for _, f := range change {
		f(job)
	}
	w.must(w.Create(w.Context(), job))
	return job.Name
}

func on(names ...string) func(*v1beta1.ImagePullJob) {
	return func(job *v1beta1.ImagePullJob) { job.Spec.Selector = &v1beta1.ImagePullJobNodeSelector{Names: names} }
}

func byPods(job *v1beta1.ImagePullJob) {
	job.Spec.Flotilla = &v1beta1.ImagePullJobFlotilla{PullBy: v1beta1.PullByPod}
}

func (w *world) job(name string) *v1beta1.ImagePullJob {
	w.Helper()
	job := &v1beta1.ImagePullJob{}
	w.must(w.Get(w.Context(), client.ObjectKey{Namespace: "default", Name: name}, job))
	return job
}

// status waits until a job has these numbers of active, succeeded and failed nodes, and Ready has the reason.
func (w *world) status(name, counts, reason string) *v1beta1.ImagePullJob {
	w.Helper()
	var job *v1beta1.ImagePullJob
	w.eventually(fmt.Sprintf("%s has %s and is %s", name, counts, reason), func() string {
		job = w.job(name)
		s := &job.Status
		ready := meta.FindStatusCondition(s.Conditions, v1beta1.ConditionReady)
		if fmt.Sprint(s.Active, s.Succeeded, s.Failed) != counts || ready == nil || ready.Reason != reason {
			return fmt.Sprintf("%+v", *s)
		}
		return ""
	})
	return job
}

// entries waits until no NodeImage has an entry of the image.
func (w *world) noEntries(image string) {
	w.Helper()
	w.eventually("no NodeImage has an entry of "+image, func() string {
		var list v1beta1.NodeImageList
		w.must(w.List(w.Context(), &list))
		for i := range list.Items {
			if _, has := list.Items[i].Spec.Images[image]; has {
				return list.Items[i].Name
			}
		}
		return ""
	})
}

func (w *world) many(nodes int) {
	before := w.writes.sum()
	const images = 10
	var names []string
	for i := range images {
		names = append(names, w.pull(fmt.Sprintf("many-%d:1", i)))
	}
	for i, name := range names {
		job := w.status(name, fmt.Sprint(0, nodes, 0), "Pulled")
		if job.Status.CompletionTime == nil || job.Status.Message != "job has completed" {
			w.Errorf("%s: %+v", name, job.Status)
		}
		w.noEntries(fmt.Sprintf("many-%d", i))
	}
	w.eventually("no image is left in a status", func() string {
		var list v1beta1.NodeImageList
		w.must(w.List(w.Context(), &list))
		for i := range list.Items {
			if len(list.Items[i].Status.ImageStatuses) > 0 {
				return list.Items[i].Name
			}
		}
		return ""
	})
	each := float64(w.writes.sum()-before) / float64(nodes*images)
	w.Logf("%.2f writes per node and image: %v", each, w.writes.of)
	if each > 3 {
		w.Errorf("%.2f writes per node and image, want at most 3", each)
	}
}

func (w *world) fails() {
	name := w.pull("broken:1", on("n010", "n011"))
	job := w.status(name, "0 1 1", "PullFailed")
	if fmt.Sprint(job.Status.FailedNodes) != "[n010]" {
		w.Errorf("failed nodes %v", job.Status.FailedNodes)
	}
	stalled := meta.FindStatusCondition(job.Status.Conditions, v1beta1.ConditionStalled)
	if stalled.Status != metav1.ConditionTrue || !strings.Contains(stalled.Message, "n010 (no such manifest)") {
		w.Errorf("condition %+v", stalled)
	}
	w.noEntries("broken")
}

// correct gives a job another image.
func (w *world) correct(name, image string) {
	w.Helper()
	job := w.job(name)
	patch := client.MergeFrom(job.DeepCopy())
	job.Spec.Image = image
	w.must(w.Patch(w.Context(), job, patch))
}

func (w *world) anotherImage() {
	name := w.pull("broken-name:1", on("n010", "n011"), func(job *v1beta1.ImagePullJob) {
		job.Spec.CompletionPolicy.Type = v1beta1.NeverCompletionPolicyType
	})
	w.status(name, "0 1 1", "NodesDone")
	w.correct(name, "right-name:1")
	job := w.status(name, "0 2 0", "NodesDone")
	if job.Status.Flotilla.Image != "right-name:1" || len(job.Status.FailedNodes) > 0 {
		w.Errorf("%+v", job.Status)
	}
	w.noEntries("broken-name")
	w.must(w.Delete(w.Context(), job))
}

func (w *world) anotherImageByPods() {
	name := w.pull("web:0", on("n001", "n002"), byPods, func(job *v1beta1.ImagePullJob) {
		job.Spec.CompletionPolicy.Type = v1beta1.NeverCompletionPolicyType
	})
	w.kubelet(name, 2)
	w.status(name, "0 2 0", "NodesDone")
	w.correct(name, "web:1")
	w.status(name, "2 0 0", "Pulling")
	w.correct(name, "web:2")
	w.eventually("all pods pull the image", func() string {
		pods := w.pods(name)
		for i := range pods {
			if image := pods[i].Spec.Containers[0].Image; image != "web:2" {
				return image
			}
		}
		if len(pods) != 2 {
			return fmt.Sprint(len(pods))
		}
		return ""
	})
	w.kubelet(name, 2)
	w.status(name, "0 2 0", "NodesDone")
	w.must(w.Delete(w.Context(), w.job(name)))
}

func (w *world) list() {
	job := &v1beta1.ImageListPullJob{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "list"}}
	job.Spec.Images = []string{"list-one:1", "broken-list:1"}
	on := v1beta1.ImagePullJobNodeSelector{Names: []string{"n020", "n021"}}
	job.Spec.Selector, job.Spec.Parallelism = &on, new(intstr.FromInt32(2))
	w.must(w.Create(w.Context(), job))
	w.eventually("both images have ended", func() string {
		w.must(w.Get(w.Context(), client.ObjectKeyFromObject(job), job))
		s := &job.Status
		if s.CompletionTime == nil || fmt.Sprint(s.Desired, s.Active, s.Completed, s.Succeeded) != "2 0 2 1" ||
			len(s.FailedImageStatuses) != 1 || s.FailedImageStatuses[0].Name != "broken-list:1" {
			return fmt.Sprintf("%+v", *s)
		}
		return ""
	})
	if c := meta.FindStatusCondition(job.Status.Conditions, v1beta1.ConditionStalled); c.Reason != "PullFailed" ||
		!strings.Contains(c.Message, "broken-list:1") {
		w.Errorf("condition %+v", c)
	}
	var children v1beta1.ImagePullJobList
	w.must(w.Client.List(w.Context(), &children, client.InNamespace("default")))
	owned := 0
	for i := range children.Items {
		if metav1.IsControlledBy(&children.Items[i], job) {
			owned++
		}
	}
	if owned != 2 {
		w.Errorf("%d ImagePullJobs, want 2", owned)
	}
}

func (w *world) expires() {
	name := w.pull("short:1", on("n001"), func(job *v1beta1.ImagePullJob) {
		job.Spec.CompletionPolicy.TTLSecondsAfterFinished = new(int32(1))
	})
	w.eventually("the job is gone", func() string {
		job := &v1beta1.ImagePullJob{}
		err := w.Get(w.Context(), client.ObjectKey{Namespace: "default", Name: name}, job)
		if apierrors.IsNotFound(err) {
			return ""
		}
		w.must(err)
		return fmt.Sprintf("%+v", job.Status)
	})
	w.noEntries("short")
}

func (w *world) leaves() {
	name := w.pull("silent-leaves:1", on("n001", "n002"), func(job *v1beta1.ImagePullJob) {
		job.Finalizers = []string{v1beta1.FinalizerImagePullJob} // OpenKruise puts it on every job
	})
	w.status(name, "2 0 0", "Pulling")
	job := w.job(name)
	w.must(w.Delete(w.Context(), job))
	w.noEntries("silent-leaves")
	w.eventually("the job is gone", func() string {
		if err := w.Get(w.Context(), client.ObjectKeyFromObject(job), job); !apierrors.IsNotFound(err) {
			return fmt.Sprint(err, job.Finalizers)
		}
		return ""
	})
}

func (w *world) secrets() {
	secret := func(name, value string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
			Type: corev1.SecretTypeDockerConfigJson, StringData: map[string]string{".dockerconfigjson": value}}
	}
	w.must(w.Create(w.Context(), secret("first", `{"auths":{}}`)))
	with := func(job *v1beta1.ImagePullJob) { job.Spec.PullSecrets = []string{"first", "second"} }
	one := w.pull("silent-one:1", on("n001"), with)
	w.eventually("the missing Secret is named", func() string {
		stalled := meta.FindStatusCondition(w.job(one).Status.Conditions, v1beta1.ConditionStalled)
		if stalled == nil || stalled.Reason != "PullSecretMissing" || !strings.Contains(stalled.Message, "second") ||
			strings.Contains(stalled.Message, "first") {
			return fmt.Sprintf("%+v", stalled)
		}
		return ""
	})
	w.must(w.Create(w.Context(), secret("second", `{"auths":{"a":{}}}`)))
	w.status(one, "1 0 0", "Pulling")
	two := w.pull("silent-two:1", on("n001"), with)
	w.status(two, "1 0 0", "Pulling")
	image := &v1beta1.NodeImage{}
	w.must(w.Get(w.Context(), client.ObjectKey{Name: "n001"}, image))
	names := map[string]string{}
	for _, reference := range image.Spec.Images["silent-one"].PullSecrets {
		copied := &corev1.Secret{}
		w.must(w.Get(w.Context(), client.ObjectKey{Namespace: reference.Namespace, Name: reference.Name}, copied))
		if copied.Labels["flotilla.dev/pull-secret"] != "true" || copied.Type != corev1.SecretTypeDockerConfigJson {
			w.Errorf("the copy has labels %v and type %s", copied.Labels, copied.Type)
		}
		names[copied.Annotations["flotilla.dev/source"]] = copied.Name
	}
	if len(names) != 2 || names["default/first"] == "" || names["default/second"] == "" {
		w.Fatalf("copies %v", names)
	}
	w.role(2)
	rotated := secret("first", `{"auths":{"b":{}}}`)
	w.must(w.Update(w.Context(), rotated))
	w.must(w.Delete(w.Context(), w.job(one))) // an event, which a minute brings else
	w.eventually("the rotated Secret reaches the copy", func() string {
		copied := &corev1.Secret{}
		w.must(w.Get(w.Context(), client.ObjectKey{Namespace: "flotilla-system", Name: names["default/first"]}, copied))
		if text := string(copied.Data[".dockerconfigjson"]); text != `{"auths":{"b":{}}}` {
			return text
		}
		return ""
	})
	w.must(w.Delete(w.Context(), w.job(two)))
	w.role(0)
	w.eventually("no copy is left", func() string {
		var list corev1.SecretList
		w.must(w.List(w.Context(), &list, client.InNamespace("flotilla-system")))
		if len(list.Items) > 0 {
			return list.Items[0].Name
		}
		return ""
	})
	w.noEntries("silent-one")
	w.noEntries("silent-two")
}

// role waits until the Role of daemons lists so many copies.
func (w *world) role(copies int) {
	w.Helper()
	w.eventually(fmt.Sprintf("the Role lists %d copies", copies), func() string {
		role := &rbacv1.Role{}
		err := w.Get(w.Context(), client.ObjectKey{Namespace: "flotilla-system", Name: "flotilla-node-pulls"}, role)
		switch {
		case err != nil:
			return err.Error()
		case copies == 0 && len(role.Rules) == 0:
			return ""
		case len(role.Rules) != 1 || len(role.Rules[0].ResourceNames) != copies:
			return fmt.Sprintf("%+v", role.Rules)
		}
		return ""
	})
}

func (w *world) comeAndGo() {
	name := w.pull("silent-goes:1", func(job *v1beta1.ImagePullJob) {
		job.Spec.Selector = &v1beta1.ImagePullJobNodeSelector{LabelSelector: metav1.LabelSelector{
			MatchLabels: map[string]string{"name": "goes"}}}
		job.Spec.CompletionPolicy.Type = v1beta1.NeverCompletionPolicyType
	})
	w.status(name, "0 0 0", "NoNodeSelected")
	w.node("goes")
	w.status(name, "1 0 0", "Pulling")
	w.must(w.Delete(w.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "goes"}}))
	w.status(name, "0 0 0", "NoNodeSelected")
	w.eventually("its NodeImage is gone", func() string {
		err := w.Get(w.Context(), client.ObjectKey{Name: "goes"}, &v1beta1.NodeImage{})
		if apierrors.IsNotFound(err) {
			return ""
		}
		return fmt.Sprint(err)
	})
	w.must(w.Delete(w.Context(), w.job(name)))
}

func (w *world) waits() {
	name := w.pull("late:1", on("late"))
	w.status(name, "0 0 0", "NoNodeSelected")
	w.node("late")
	w.status(name, "0 1 0", "Pulled")
	w.must(w.Delete(w.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "late"}}))
}

func (w *world) restarts(stop func()) {
	name := w.pull("silent-restart:1", on("n001", "n002", "n003"),
		func(job *v1beta1.ImagePullJob) { job.Spec.Parallelism = new(intstr.FromInt32(2)) })
	w.status(name, "2 0 0", "Pulling")
	stop()
	image := func() *v1beta1.NodeImage {
		out := &v1beta1.NodeImage{}
		w.must(w.Get(w.Context(), client.ObjectKey{Name: "n001"}, out))
		return out
	}
	before := image()
	done := before.DeepCopy()
	done.Status.ImageStatuses = map[string]v1beta1.ImageStatus{"silent-restart": {Tags: []v1beta1.ImageTagStatus{
		{Tag: "1", Phase: v1beta1.ImagePhaseSucceeded}}}}
	w.must(w.Status().Update(w.Context(), done))
	before = done
	w.whole.agent()
	w.eventually("the next node is asked", func() string {
		next := &v1beta1.NodeImage{}
		w.must(w.Get(w.Context(), client.ObjectKey{Name: "n003"}, next))
		if len(next.Spec.Images["silent-restart"].Tags) == 0 {
			return fmt.Sprintf("%+v", w.job(name).Status)
		}
		return ""
	})
	if after := image(); after.Generation != before.Generation {
		w.Errorf("the spec of n001 was written again: %+v", after.Spec)
	}
	w.must(w.Delete(w.Context(), w.job(name)))
}

func (w *world) silent() {
	name := w.pull("silent-ten:1", on("n001"))
	w.status(name, "1 0 0", "Pulling")
	w.clock.ahead.Add(int64(11 * time.Minute))
	// A clock wakes nothing: an event does.
	job := w.job(name)
	w.must(w.Patch(w.Context(), job, client.RawPatch(types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"woken":"true"}}}`))))
	job = w.status(name, "0 0 1", "PullFailed")
	if fmt.Sprint(job.Status.FailedNodes) != "[n001]" {
		w.Errorf("failed nodes %v", job.Status.FailedNodes)
	}
}

// kubelet plays the kubelets of all nodes for pods of a job, once: it says that their containers failed to start.
func (w *world) kubelet(job string, want int) {
	w.Helper()
	w.eventually(fmt.Sprintf("%d pods of %s are there", want, job), func() string {
		pods := w.pods(job)
		if len(pods) != want {
			return fmt.Sprint(len(pods))
		}
		for i := range pods {
			pod := &pods[i]
			pod.Status.Phase = corev1.PodFailed
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "pull", Image: "i", ImageID: "i@sha256:1",
				State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 128, Reason: "StartError"}}}}
			w.must(client.IgnoreNotFound(w.Status().Update(w.Context(), pod)))
		}
		return ""
	})
}

func (w *world) pods(job string) []corev1.Pod {
	w.Helper()
	var list corev1.PodList
	w.must(w.List(w.Context(), &list, client.InNamespace("default"),
		client.MatchingLabels{v1beta1.LabelImagePullJobUID: string(w.job(job).UID)}))
	return list.Items
}

func (w *world) podsPull() {
	name := w.pull("registry.example/web:1", on("n001", "n002", "n003"), func(job *v1beta1.ImagePullJob) {
		job.Spec.Parallelism = new(intstr.FromInt32(2))
		job.Spec.ImagePullPolicy, job.Spec.PullSecrets = v1beta1.PullAlways, []string{"registry"}
	})
	w.status(name, "2 0 0", "Pulling")
	pods := w.pods(name)
	if len(pods) != 2 {
		w.Fatalf("%d pods, want 2", len(pods))
	}
	if spec := pods[0].Spec; spec.Containers[0].Image != "registry.example/web:1" ||
		spec.Containers[0].ImagePullPolicy != corev1.PullAlways || spec.ImagePullSecrets[0].Name != "registry" {
		w.Errorf("the pod is %+v", spec)
	}
	w.kubelet(name, 2)
	w.eventually("the third node pulls, and the pods of the others are gone", func() string {
		if pods := w.pods(name); len(pods) != 1 || w.job(name).Status.Succeeded != 2 {
			return fmt.Sprintf("%d pods, %+v", len(pods), w.job(name).Status)
		}
		return ""
	})
	w.kubelet(name, 1)
	job := w.status(name, "0 3 0", "Pulled")
	if by := job.Status.Flotilla; by.PullBy != v1beta1.PullByPod || len(by.PulledNodes) != 3 {
		w.Errorf("%+v", by)
	}
	w.eventually("no pod is left", func() string {
		if n := len(w.pods(name)); n > 0 {
			return fmt.Sprint(n)
		}
		return ""
	})
}

func (w *world) quota() {
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "none"},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/pods": {}}}}
	w.must(w.Create(w.Context(), quota))
	quota.Status.Hard, quota.Status.Used = quota.Spec.Hard, corev1.ResourceList{"count/pods": {}}
	w.must(w.Status().Update(w.Context(), quota))
	name := w.pull("web:1", on("n001"), byPods)
	w.eventually("the quota is named", func() string {
		ready := meta.FindStatusCondition(w.job(name).Status.Conditions, v1beta1.ConditionReady)
		if ready == nil || ready.Reason != "FailedCreatePod" || !strings.Contains(ready.Message, "exceeded quota: none") {
			return fmt.Sprintf("%+v", ready)
		}
		return ""
	})
	w.must(w.Delete(w.Context(), quota))
	w.kubelet(name, 1)
	w.status(name, "0 1 0", "Pulled")
}
