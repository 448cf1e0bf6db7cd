package images

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/nodedaemon"
	"github.com/flotilla-dev/flotilla/member-agent/nodedaemon/cri"
	"github.com/flotilla-dev/flotilla/member-agent/nodedaemon/fakecri"
)

// node is a node with a scripted runtime and a daemon that pulls.
type node struct {
	*testing.T
	*fakecri.Server
	client client.Client
	clock  *clocktesting.FakeClock
	events *events.FakeRecorder
	env    nodedaemon.Env
	// writes counts the writes of the status; refuse has them fail.
	writes atomic.Int64
	refuse atomic.Bool
	mu     sync.Mutex
	worker *worker // guarded by mu
	stop   func()
}

func newNode(t *testing.T, spec v1beta1.NodeImageSpec, objects ...client.Object) *node {
	t.Helper()
	folder, err := os.MkdirTemp("", "images")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	n := &node{T: t, Server: fakecri.New(filepath.Join(folder, "cri.sock")), events: events.NewFakeRecorder(100),
		clock: clocktesting.NewFakeClock(now)}
	if err := n.Server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Server.Stop)
	connection, err := cri.Connect(t.Context(), cri.Options{Endpoint: n.Socket()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close(context.WithoutCancel(t.Context())) })
	scheme := runtime.NewScheme()
	if err := nodedaemon.AddToScheme(scheme, nil); err != nil {
		t.Fatal(err)
	}
	objects = append(objects, &v1beta1.NodeImage{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "1"}, Spec: spec})
	n.client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(
		&v1beta1.NodeImage{}).WithInterceptorFuncs(interceptor.Funcs{SubResourcePatch: n.patch}).Build()
	n.env = nodedaemon.Env{Node: "a", Client: n.client, Live: n.client, Runtime: connection.RuntimeService,
		Images: connection.ImageService, Clock: n.clock, Log: logr.Discard(), Events: n.events}
	return n
}

// patch counts the writes of the daemon, and raises its signal as the watch does.
func (n *node) patch(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
	options ...client.SubResourcePatchOption,
) error {
	if n.refuse.Load() {
		return errors.New("the API server does not answer")
	}
	n.writes.Add(1)
	defer n.raise()
	return c.SubResource(sub).Patch(ctx, o, p, options...)
}

func (n *node) raise() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.worker != nil {
		n.worker.changed.Raise()
	}
}

// run starts a daemon. kill ends it at once, as it does when the process is killed: what it knew is lost.
func (n *node) run(workers int) *node {
	n.Helper()
	w := newWorker(n.env, workers, newMeter())
	n.mu.Lock()
	n.worker = w
	n.mu.Unlock()
	ctx, cancel := context.WithCancel(n.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.run(ctx)
	}()
	n.stop = func() {
		cancel()
		<-done
	}
	n.Cleanup(n.stop)
	return n
}

func (n *node) image() *v1beta1.NodeImage {
	n.Helper()
	image := &v1beta1.NodeImage{}
	if err := n.client.Get(n.Context(), client.ObjectKey{Name: "a"}, image); err != nil {
		n.Fatal(err)
	}
	return image
}

// change changes the spec of the NodeImage.
func (n *node) change(f func(spec *v1beta1.NodeImageSpec)) {
	n.Helper()
	image := n.image()
	f(&image.Spec)
	if err := n.client.Update(n.Context(), image); err != nil {
		n.Fatal(err)
	}
	n.raise()
}

func (n *node) tag(image string) v1beta1.ImageTagStatus {
	n.Helper()
	for _, tag := range n.image().Status.ImageStatuses[image].Tags {
		return tag
	}
	return v1beta1.ImageTagStatus{}
}

// until lets the clock go on until the condition holds.
func (n *node) until(what string, holds func() bool) {
	n.Helper()
	n.poll(what, time.Second, holds)
}

// poll checks until the condition holds, and lets the clock go on each time.
func (n *node) poll(what string, step time.Duration, holds func() bool) {
	n.Helper()
	ctx, cancel := context.WithTimeout(n.Context(), 30*time.Second)
	defer cancel()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for !holds() {
		select {
		case <-ctx.Done():
			n.Fatalf("never: %s; status %+v", what, n.image().Status)
		case <-ticker.C:
			n.clock.Step(step)
		}
	}
}

// phase waits for a phase of an image.
func (n *node) phase(image string, phase v1beta1.ImagePullPhase) v1beta1.ImageTagStatus {
	n.Helper()
	n.until(image+" is "+string(phase), func() bool { return n.tag(image).Phase == phase })
	return n.tag(image)
}

// pulls returns the references of all calls of PullImage.
func (n *node) pulls() []string {
	var all []string
	for _, call := range n.Calls("PullImage") {
		all = append(all, call.Request.(*runtimeapi.PullImageRequest).Image.Image)
	}
	return all
}

// wants returns a spec with one tag 1 of each image.
func wants(images ...string) v1beta1.NodeImageSpec {
	spec := v1beta1.NodeImageSpec{Images: map[string]v1beta1.ImageSpec{}}
	for _, name := range images {
		spec.Images[name] = v1beta1.ImageSpec{Tags: []v1beta1.ImageTagSpec{{Tag: "1",
			CreatedAt: new(metav1.NewTime(now)), PullPolicy: &v1beta1.ImageTagPullPolicy{TimeoutSeconds: new(int32(60)),
				BackoffLimit: new(int32(2)), TTLSecondsAfterFinished: new(int32(1 << 30))},
			OwnerReferences: []v1beta1.JobReference{{APIVersion: "apps.kruise.io/v1beta1", Kind: "ImagePullJob",
				Namespace: "shop", Name: "job-" + name}}}}}
	}
	return spec
}

// with changes the one image of a spec and its tag.
func with(spec v1beta1.NodeImageSpec, f func(*v1beta1.ImageSpec, *v1beta1.ImageTagSpec)) v1beta1.NodeImageSpec {
	for name, image := range spec.Images {
		f(&image, &image.Tags[0])
		spec.Images[name] = image
	}
	return spec
}

func TestPulledImageIsReported(t *testing.T) {
	n := newNode(t, with(wants("web"), func(image *v1beta1.ImageSpec, _ *v1beta1.ImageTagSpec) {
		image.SandboxConfig = &v1beta1.SandboxConfig{Labels: map[string]string{"l": "1"},
			Annotations: map[string]string{"a": "2"}}
	}))
	n.Push("web:1", fakecri.RegistryImage{ID: "sha256:a"})
	tag := n.run(2).phase("web", v1beta1.ImagePhaseSucceeded)
	if tag.ImageID != "web@sha256:a" || tag.Progress != 100 || tag.StartTime == nil || tag.CompletionTime == nil {
		t.Errorf("the tag is %+v", tag)
	}
	if n.writes.Load() > 2 {
		t.Errorf("%d writes for one image", n.writes.Load())
	}
	calls := n.Calls("PullImage")
	if len(calls) != 1 {
		t.Fatalf("%d pulls", len(calls))
	}
	got := calls[0].Request.(*runtimeapi.PullImageRequest).SandboxConfig
	if got.Labels["l"] != "1" || got.Annotations["a"] != "2" || got.Annotations[annotationPulledBy] == "" {
		t.Errorf("the sandbox is %v", got)
	}
	if status := n.image().Status.FirstSyncStatus; status == nil || status.Status != v1beta1.SyncStatusSucceeded {
		t.Errorf("the first sync is %v", status)
	}
}

func TestADigestIsPulledByItsDigest(t *testing.T) {
	n := newNode(t, with(wants("web"), func(_ *v1beta1.ImageSpec, tag *v1beta1.ImageTagSpec) { tag.Tag = "sha256:ab" }))
	n.Push("web@sha256:ab", fakecri.RegistryImage{ID: "sha256:a"})
	n.run(1).phase("web", v1beta1.ImagePhaseSucceeded)
}

func TestImagesOfTheNodeAreNotPulledAgain(t *testing.T) {
	n := newNode(t, wants("web"))
	n.AddImage("web:1", "sha256:a")
	n.run(1).phase("web", v1beta1.ImagePhaseSucceeded)
	if len(n.pulls()) != 0 || n.writes.Load() != 1 {
		t.Errorf("%d pulls and %d writes", len(n.pulls()), n.writes.Load())
	}
}

func TestAlwaysAsksTheRegistry(t *testing.T) {
	n := newNode(t, with(wants("web"), func(_ *v1beta1.ImageSpec, tag *v1beta1.ImageTagSpec) {
		tag.ImagePullPolicy = v1beta1.PullAlways
	}))
	n.AddImage("web:1", "sha256:old")
	n.Push("web:1", fakecri.RegistryImage{ID: "sha256:new"})
	if tag := n.run(1).phase("web", v1beta1.ImagePhaseSucceeded); tag.ImageID != "web@sha256:new" {
		t.Errorf("the image is %s", tag.ImageID)
	}
}

func login(name string, registries map[string]string) *corev1.Secret {
	var all []string
	for registry, password := range registries {
		all = append(all, fmt.Sprintf(`%q:{"username":"u","password":%q}`, registry, password))
	}
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "flotilla-system", Name: name},
		Type: corev1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(`{"auths":{` + strings.Join(all, ",") + `}}`)}}
}

// secrets has the image pulled with these Secrets.
func secrets(names ...string) func(*v1beta1.ImageSpec, *v1beta1.ImageTagSpec) {
	return func(image *v1beta1.ImageSpec, tag *v1beta1.ImageTagSpec) {
		tag.PullPolicy.BackoffLimit = new(int32(0))
		for _, name := range names {
			image.PullSecrets = append(image.PullSecrets, v1beta1.PullSecretReference{Namespace: "flotilla-system",
				Name: name})
		}
	}
}

func TestEachCredentialThatMatchesIsTried(t *testing.T) {
	n := newNode(t, with(wants("r.example/team/web"), secrets("missing", "wrong", "right")),
		login("wrong", map[string]string{"r.example/team": "old", "other.example": "x"}),
		login("right", map[string]string{"r.example": "p"}))
	n.Push("r.example/team/web:1", fakecri.RegistryImage{ID: "sha256:a", Username: "u", Password: "p"})
	n.run(1).phase("r.example/team/web", v1beta1.ImagePhaseSucceeded)
	var tried []string
	for _, call := range n.Calls("PullImage") {
		tried = append(tried, call.Request.(*runtimeapi.PullImageRequest).GetAuth().GetPassword())
	}
	if !slices.Equal(tried, []string{"old", "p"}) {
		t.Errorf("tried %q", tried)
	}
}

func TestNoCredentialsMeansAnonymous(t *testing.T) {
	n := newNode(t, with(wants("r.example/web"), secrets("other")), login("other", map[string]string{"o.example": "x"}))
	n.Push("r.example/web:1", fakecri.RegistryImage{ID: "sha256:a"})
	n.run(1).phase("r.example/web", v1beta1.ImagePhaseSucceeded)
	if auth := n.Calls("PullImage")[0].Request.(*runtimeapi.PullImageRequest).Auth; auth != nil {
		t.Error("a credential of another registry was sent")
	}
}

func TestFailureNamesTheSecretThatIsMissing(t *testing.T) {
	n := newNode(t, with(wants("r.example/web"), secrets("missing", "wrong")),
		login("wrong", map[string]string{"r.example": "bad"}))
	n.Push("r.example/web:1", fakecri.RegistryImage{ID: "sha256:a", Username: "u", Password: "p"})
	tag := n.run(1).phase("r.example/web", v1beta1.ImagePhaseFailed)
	for _, part := range []string{"401 Unauthorized", "Secret flotilla-system/missing does not exist"} {
		if !strings.Contains(tag.Message, part) {
			t.Errorf("%q does not say %q", tag.Message, part)
		}
	}
	if strings.Contains(tag.Message, "bad") || len(n.pulls()) != 1 {
		t.Errorf("%q after %d pulls: shows a password, or an anonymous pull followed", tag.Message, len(n.pulls()))
	}
}

func TestNoMoreThanItsWorkersPullAtOnce(t *testing.T) {
	n := newNode(t, wants("a", "b", "c", "d", "e"))
	release := make(chan struct{})
	n.Always("PullImage", fakecri.Answer{Wait: release})
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		n.Push(name+":1", fakecri.RegistryImage{ID: "sha256:" + name})
	}
	n.run(2)
	n.poll("two pulls", 0, func() bool { return n.image().Status.Pulling == 2 && len(n.pulls()) == 2 })
	if s := n.image().Status; s.Waiting != 3 || s.Desired != 5 {
		t.Errorf("%d wait of %d", s.Waiting, s.Desired)
	}
	close(release)
	n.until("all are pulled", func() bool { return n.image().Status.Succeeded == 5 })
	if got := n.writes.Load(); got > 15 {
		t.Errorf("%d writes for 5 images", got)
	}
}

func TestAPullThatNeverEndsIsStoppedAndTriedAgain(t *testing.T) {
	n := newNode(t, wants("stuck", "web"))
	n.Push("web:1", fakecri.RegistryImage{ID: "sha256:a"})
	n.Push("stuck:1", fakecri.RegistryImage{ID: "sha256:b"})
	n.Script("PullImage", fakecri.Answer{Stuck: true}, fakecri.Answer{Stuck: true})
	n.run(2)
	n.until("both were pulled after their timeouts", func() bool { return n.image().Status.Succeeded == 2 })
	if got := len(n.pulls()); got != 4 {
		t.Errorf("%d attempts, want 4", got)
	}
}

func TestAPullThatNeverEndsFailsAtLast(t *testing.T) {
	n := newNode(t, wants("web"))
	n.Always("PullImage", fakecri.Answer{Stuck: true})
	tag := n.run(1).phase("web", v1beta1.ImagePhaseFailed)
	if !strings.Contains(tag.Message, "3 attempts failed: not pulled within timeoutSeconds, which is 60") {
		t.Errorf("it says %q", tag.Message)
	}
}

func TestRefusedPullsAreTriedAgainWithPausesAndReported(t *testing.T) {
	n := newNode(t, wants("web"))
	n.Always("PullImage", fakecri.Answer{Code: codes.Unknown, Message: "no space left on device"})
	begin := n.clock.Now()
	tag := n.run(1).phase("web", v1beta1.ImagePhaseFailed)
	if len(n.pulls()) != 3 || !strings.Contains(tag.Message, "3 attempts failed: no space left on device") {
		t.Errorf("%d attempts, and it says %q", len(n.pulls()), tag.Message)
	}
	if took := n.clock.Since(begin); took < 3*time.Second {
		t.Errorf("three attempts took %s, want pauses of 1 and 2 seconds", took)
	}
	if got := n.writes.Load(); got > 3 {
		t.Errorf("%d writes for an image that failed", got)
	}
	if event := <-n.events.Events; !strings.Contains(event, "PullImageFailed") ||
		!strings.Contains(event, "Node a: web:1: ") {
		t.Errorf("the event is %q", event)
	}
	n.clock.Step(24 * time.Hour)
	n.raise()
	n.change(func(spec *v1beta1.NodeImageSpec) { // a new request
		n.Always("PullImage", fakecri.Answer{})
		n.Push("web:1", fakecri.RegistryImage{ID: "sha256:a"})
		spec.Images["web"].Tags[0].Version = 1
	})
	if tag := n.phase("web", v1beta1.ImagePhaseSucceeded); tag.Version != 1 || len(n.events.Events) != 0 {
		t.Errorf("version %d, and %d further events", tag.Version, len(n.events.Events))
	}
}

func TestAPullThatIsNotWantedAnyMoreIsStopped(t *testing.T) {
	for name, change := range map[string]func(n *node){
		"another list": func(n *node) {
			n.change(func(spec *v1beta1.NodeImageSpec) { spec.Images = wants("web").Images })
		},
		"no list": func(n *node) {
			if err := n.client.Delete(n.Context(), n.image()); err != nil {
				n.Fatal(err)
			}
			n.raise()
			n.until("the pull ended", func() bool { return len(n.worker.ended) == 0 })
			again := &v1beta1.NodeImage{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "2"}, Spec: wants("web")}
			if err := n.client.Create(n.Context(), again); err != nil {
				n.Fatal(err)
			}
			n.raise()
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, wants("stuck"))
			n.Push("web:1", fakecri.RegistryImage{ID: "sha256:a"})
			n.Script("PullImage", fakecri.Answer{Stuck: true})
			n.run(1).phase("stuck", v1beta1.ImagePhasePulling)
			if _, err := n.WaitForCalls(t.Context(), "PullImage", 1); err != nil {
				t.Fatal(err)
			}
			change(n) // the one worker is free again without its timeout
			n.poll("the next is pulled", 0, func() bool { return n.tag("web").Phase == v1beta1.ImagePhaseSucceeded })
		})
	}
}

func TestAnImageThatTheKubeletRemovedIsPulledAgain(t *testing.T) {
	n := newNode(t, wants("web"))
	n.Push("web:1", fakecri.RegistryImage{ID: "sha256:a"})
	n.run(1).phase("web", v1beta1.ImagePhaseSucceeded)
	n.DropImage("web:1")
	n.until("it is pulled again", func() bool { return n.Images()["web:1"] != "" })
	n.phase("web", v1beta1.ImagePhaseSucceeded)
}

// TestARuntimeThatHangsForOneImage: the others are pulled.
func TestARuntimeThatHangsForOneImage(t *testing.T) {
	n := newNode(t, wants("slow", "web"))
	n.Push("web:1", fakecri.RegistryImage{ID: "sha256:a"})
	n.env.Images = &hanging{ImageManagerService: n.env.Images, image: "slow:1"}
	n.run(1).phase("web", v1beta1.ImagePhaseSucceeded)
	if tag := n.tag("slow"); tag.Phase != v1beta1.ImagePhaseWaiting {
		t.Errorf("%+v", tag)
	}
}

// hanging is a runtime that does not answer whether it has an image.
type hanging struct {
	internalapi.ImageManagerService
	image string
}

func (h *hanging) ImageStatus(
	ctx context.Context, image *runtimeapi.ImageSpec, verbose bool,
) (*runtimeapi.ImageStatusResponse, error) {
	if image.Image == h.image {
		<-ctx.Done()
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	return h.ImageManagerService.ImageStatus(ctx, image, verbose)
}

// TestANodeImageThatIsMadeAnew: attempts for the one before do not count.
func TestANodeImageThatIsMadeAnew(t *testing.T) {
	n := newNode(t, wants("web"))
	n.run(1).phase("web", v1beta1.ImagePhaseFailed)
	image := n.image()
	if err := n.client.Delete(t.Context(), image); err != nil {
		t.Fatal(err)
	}
	n.Push("web:1", fakecri.RegistryImage{ID: "sha256:a"})
	again := &v1beta1.NodeImage{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "2"}, Spec: image.Spec}
	if err := n.client.Create(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	n.raise()
	n.phase("web", v1beta1.ImagePhaseSucceeded)
}

func TestARestartOfTheRuntimeIsNoFailedAttempt(t *testing.T) {
	n := newNode(t, with(wants("web"), func(_ *v1beta1.ImageSpec, tag *v1beta1.ImageTagSpec) {
		tag.PullPolicy.BackoffLimit = new(int32(0))
	}))
	n.Push("web:1", fakecri.RegistryImage{ID: "sha256:a"})
	n.Script("PullImage", fakecri.Answer{Stuck: true})
	n.run(1).phase("web", v1beta1.ImagePhasePulling)
	if _, err := n.WaitForCalls(t.Context(), "PullImage", 1); err != nil {
		t.Fatal(err)
	}
	n.Server.Stop()
	n.poll("the attempt ended", 0, func() bool { return n.tag("web").Phase == v1beta1.ImagePhaseWaiting })
	if err := n.Server.Start(); err != nil {
		t.Fatal(err)
	}
	n.phase("web", v1beta1.ImagePhaseSucceeded)
}

func TestPulledImagesStayReportedWhileTheRuntimeIsStopped(t *testing.T) {
	n := newNode(t, wants("web"))
	n.Push("web:1", fakecri.RegistryImage{ID: "sha256:a"})
	n.run(1).phase("web", v1beta1.ImagePhaseSucceeded)
	n.stop()
	n.Server.Stop()
	writes := n.writes.Load()
	n.run(1)
	n.poll("it has looked again", time.Minute, func() bool { return n.clock.Since(now) > 5*time.Hour })
	if tag := n.tag("web"); tag.Phase != v1beta1.ImagePhaseSucceeded || n.writes.Load() != writes {
		t.Errorf("%d writes, and %+v", n.writes.Load()-writes, tag)
	}
}

// TestADaemonThatIsKilledGoesOn kills it in each step.
func TestADaemonThatIsKilledGoesOn(t *testing.T) {
	for name, step := range map[string]func(n *node){
		"before the first write": func(n *node) {
			n.refuse.Store(true)
			n.Script("PullImage", fakecri.Answer{Stuck: true})
			n.run(1)
			n.poll("it pulls", 0, func() bool { return len(n.pulls()) == 1 })
		},
		"during a pull": func(n *node) {
			n.Script("PullImage", fakecri.Answer{Stuck: true})
			n.run(1).phase("web", v1beta1.ImagePhasePulling)
		},
		"after a pull whose answer was lost": func(n *node) {
			n.Script("PullImage", fakecri.Answer{Stuck: true, After: true})
			n.run(1)
			n.poll("it has the image", 0, func() bool { return n.Images()["web:1"] != "" })
		},
		"before its end was written": func(n *node) {
			release := make(chan struct{})
			n.Script("PullImage", fakecri.Answer{Wait: release})
			n.run(1).phase("web", v1beta1.ImagePhasePulling)
			n.refuse.Store(true)
			close(release)
			n.poll("it has the image", 0, func() bool { return n.Images()["web:1"] != "" })
		},
		"between two attempts": func(n *node) {
			n.Script("PullImage", fakecri.Answer{Code: codes.Unknown, Message: "refused"})
			n.run(1)
			n.poll("it waits", 0, func() bool { return n.tag("web").Message != "" })
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, wants("web"))
			n.Push("web:1", fakecri.RegistryImage{ID: "sha256:a"})
			step(n)
			n.stop()
			n.refuse.Store(false)
			n.run(1).phase("web", v1beta1.ImagePhaseSucceeded)
			if got := len(n.pulls()); got > 2 {
				t.Errorf("%d attempts", got)
			}
		})
	}
}

func TestTheStatusIsWrittenOnceTheAPIServerAnswers(t *testing.T) {
	n := newNode(t, wants("web"))
	n.Push("web:1", fakecri.RegistryImage{ID: "sha256:a"})
	n.refuse.Store(true)
	n.run(1)
	n.until("it is pulled", func() bool { return n.Images()["web:1"] != "" })
	n.refuse.Store(false)
	n.phase("web", v1beta1.ImagePhaseSucceeded)
}

func TestAClockThatIsSetBackDoesNotHoldAttemptsUp(t *testing.T) {
	n := newNode(t, wants("web"))
	n.Script("PullImage", fakecri.Answer{Code: codes.Unknown, Message: "refused"})
	n.Push("web:1", fakecri.RegistryImage{ID: "sha256:a"})
	n.run(1)
	n.poll("the first attempt failed", 0, func() bool { return n.tag("web").Message != "" })
	n.clock.SetTime(now.Add(-24 * time.Hour))
	n.raise()
	n.poll("it is pulled", 0, func() bool { return n.tag("web").Phase == v1beta1.ImagePhaseSucceeded })
}

func TestAtRestNothingIsWrittenOrPulled(t *testing.T) {
	n := newNode(t, wants("web", "bad"))
	n.Push("web:1", fakecri.RegistryImage{ID: "sha256:a"})
	n.run(2)
	n.until("both ended", func() bool { return n.image().Status.Succeeded == 1 && n.image().Status.Failed == 1 })
	writes, pulls, looks := n.writes.Load(), len(n.pulls()), len(n.Calls("ImageStatus"))
	n.poll("it has looked again", time.Minute, func() bool { return len(n.Calls("ImageStatus")) > looks+3 })
	if n.writes.Load() != writes || len(n.pulls()) != pulls {
		t.Errorf("%d writes and %d pulls at rest", n.writes.Load()-writes, len(n.pulls())-pulls)
	}
}

func TestConditionsOfTheNodeImageAreKept(t *testing.T) {
	n := newNode(t, wants("web"))
	image := n.image()
	image.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Connected"}}
	if err := n.client.Status().Update(t.Context(), image); err != nil {
		t.Fatal(err)
	}
	n.Push("web:1", fakecri.RegistryImage{ID: "sha256:a"})
	n.run(1).phase("web", v1beta1.ImagePhaseSucceeded)
	if got := n.image().Status.Conditions; len(got) != 1 {
		t.Errorf("the conditions are %v", got)
	}
}
