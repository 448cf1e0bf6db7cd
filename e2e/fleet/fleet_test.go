package fleet_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/flotilla-dev/flotilla/e2e/fleet"
)

// ownerEnv makes this test binary start a fleet, print its folder and wait to be killed.
const ownerEnv = "FLEET_TEST_OWNER"

func TestMain(m *testing.M) {
	if bin := os.Getenv(ownerEnv); bin != "" {
		f, err := fleet.Start(context.Background(), fleet.Config{Bin: bin, NoHub: true,
			Members: []fleet.ClusterSpec{{Name: "orphan"}}})
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(f.Dir)
		select {}
	}
	os.Exit(m.Run())
}

func client(t *testing.T, c *fleet.Cluster) *kubernetes.Clientset {
	t.Helper()
	client, err := kubernetes.NewForConfig(c.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// eventually polls check until it returns "", and fails the test with its last answer after three minutes.
func eventually(t *testing.T, what string, check func(ctx context.Context) string) {
	t.Helper()
	last := ""
	const every, limit = 20 * time.Millisecond, 3 * time.Minute
	err := wait.PollUntilContextTimeout(t.Context(), every, limit, true, func(ctx context.Context) (bool, error) {
		last = check(ctx)
		return last == "", nil
	})
	if err != nil {
		t.Fatalf("%s: %v: %s", what, err, last)
	}
}

func pidsOf(t *testing.T, dir string) []int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "clusters/*/pids/*.pid"))
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		pid, err := strconv.Atoi(string(data))
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

// alive reports whether one of pids is a process with dir in its command line.
func alive(pids []int, dir string) bool {
	for _, pid := range pids {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && strings.Contains(string(line), dir) {
			return true
		}
	}
	return false
}

func TestParallelFleetsDoNotCollide(t *testing.T) {
	bin, err := fleet.FindBinaries()
	if err != nil {
		t.Fatalf("this test needs a real control plane: %v", err)
	}
	cfg := fleet.Config{Bin: bin, Audit: true, Members: []fleet.ClusterSpec{{Name: "east",
		Nodes: fleet.Nodes("east", "eu", []string{"a"}, 1)}}}
	var fleets [2]*fleet.Fleet
	group, ctx := errgroup.WithContext(t.Context())
	for i := range fleets {
		group.Go(func() (err error) {
			fleets[i], err = fleet.Start(ctx, cfg)
			return err
		})
	}
	startErr := group.Wait()
	var pids []int
	for _, f := range fleets {
		if f != nil {
			pids = append(pids, pidsOf(t, f.Dir)...)
			t.Cleanup(func() {
				if err := f.Destroy(); err != nil {
					t.Error(err)
				}
			})
		}
	}
	if startErr != nil {
		t.Fatal(startErr)
	}
	// 3 processes of each hub, 5 of each member.
	if len(pids) != 16 {
		t.Errorf("two fleets of a hub and a member run %d processes, want 16", len(pids))
	}
	ids := map[string]bool{}
	for _, f := range fleets {
		for _, c := range f.Clusters() {
			ns, err := client(t, c).CoreV1().Namespaces().Get(t.Context(), metav1.NamespaceSystem, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			ids[string(ns.UID)] = true
		}
	}
	if len(ids) != 4 {
		t.Errorf("four kubeconfigs lead to %d clusters", len(ids))
	}
	opened, err := fleet.Open(fleets[0].Dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := opened.Member("east").Serving(t.Context()); err != nil {
		t.Errorf("a fleet that was opened by its folder: %v", err)
	}
	audit, err := os.ReadFile(fleets[0].Hub().AuditLog())
	if err != nil || !strings.Contains(string(audit), `"verb":"create"`) {
		t.Errorf("the audit log tells of no create (%v)", err)
	}
	dir := fleets[0].Dir
	if err := fleets[0].Destroy(); err != nil {
		t.Fatal(err)
	}
	if alive(pids, dir) {
		t.Error("processes of a destroyed fleet live on")
	}
	if err := fleets[1].Hub().Serving(t.Context()); err != nil {
		t.Errorf("destroying one fleet hurt the other: %v", err)
	}
}

func TestFleetEndsWithItsOwner(t *testing.T) {
	bin, err := fleet.FindBinaries()
	if err != nil {
		t.Fatalf("this test needs a real control plane: %v", err)
	}
	owner := exec.Command(os.Args[0])
	owner.Env = append(os.Environ(), ownerEnv+"="+bin)
	out, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = owner.Process.Kill() })
	dir, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	dir = strings.TrimSpace(dir)
	pids := pidsOf(t, dir)
	if len(pids) == 0 || !alive(pids, dir) {
		t.Fatalf("the owner's fleet does not run: %s", dir)
	}
	if err := owner.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = owner.Wait()
	eventually(t, "after its owner was killed", func(context.Context) string {
		if alive(pids, dir) {
			return "processes live on"
		}
		if _, err := os.Stat(dir); err == nil {
			return "its folder stays"
		}
		return ""
	})
}

func TestStoppedClusterGoesOnWhereItWas(t *testing.T) {
	f := fleet.ForTest(t, fleet.Config{NoHub: true,
		Members: []fleet.ClusterSpec{{Name: "east", Nodes: fleet.Nodes("east", "eu", []string{"a"}, 1)}}})
	east := f.Member("east")
	pods := client(t, east).CoreV1().Pods("default")
	create := func(name string) {
		t.Helper()
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: good}}}}
		if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, name+" becomes Ready", func(ctx context.Context) string {
			pod, err := pods.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err.Error()
			}
			return isReady(good)(pod)
		})
	}
	create("before")
	before, err := pods.Get(t.Context(), "before", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := east.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := east.Serving(t.Context()); err == nil {
		t.Fatal("a stopped cluster answers")
	}
	if err := east.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	create("after")
	after, err := pods.Get(t.Context(), "before", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if after.UID != before.UID ||
		after.Status.ContainerStatuses[0].ContainerID != before.Status.ContainerStatuses[0].ContainerID {
		t.Error("the pod was restarted with its control plane")
	}
	if err := pods.Delete(t.Context(), "before", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pod goes", func(ctx context.Context) string {
		if _, err := pods.Get(ctx, "before", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Sprint("still there: ", err)
		}
		return ""
	})
}

func TestProgramsAreStoppedKilledAndRestarted(t *testing.T) {
	f := fleet.ForTest(t, fleet.Config{NoHub: true})
	script := filepath.Join(f.Dir, "program.sh")
	if err := os.WriteFile(script,
		[]byte("trap 'echo asked to end; exit 0' TERM\necho started\nwhile :; do sleep 0.05; done\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := f.Run(fleet.Program{Name: "p", Path: "/bin/sh", Args: []string{"-c", ":"}}); err == nil {
		t.Error("a program that could not be found again was started")
	}
	started := func(times int) {
		t.Helper()
		eventually(t, "wait for the program", func(context.Context) string {
			if log := f.LogTail("p", 10); strings.Count(log, "started") != times {
				return fmt.Sprintf("log %q", log)
			}
			return ""
		})
	}
	if err := f.Run(fleet.Program{Name: "p", Path: "/bin/sh", Args: []string{script}}); err != nil {
		t.Fatal(err)
	}
	started(1)
	if err := f.Quit(t.Context(), "p"); err != nil || f.Running("p") {
		t.Errorf("stopped: error %v, running %v", err, f.Running("p"))
	}
	if !strings.Contains(f.LogTail("p", 3), "asked to end") {
		t.Error("the program was not asked to end")
	}
	if err := f.Restart("p"); err != nil {
		t.Fatal(err)
	}
	started(2)
	if err := f.Kill(t.Context(), "p"); err != nil || f.Running("p") {
		t.Errorf("killed: error %v, running %v", err, f.Running("p"))
	}
	if err := f.Restart("p"); err != nil {
		t.Fatal(err)
	}
	started(3)
	pid := f.Pid("p")
	if err := f.Destroy(); err != nil || alive([]int{pid}, f.Dir) {
		t.Errorf("destroyed: error %v, running %v", err, alive([]int{pid}, f.Dir))
	}
}

func TestDeadComponentsAreStartedAgain(t *testing.T) {
	f := fleet.ForTest(t, fleet.Config{NoHub: true, Members: []fleet.ClusterSpec{{Name: "east", NoKubelets: true}}})
	east := f.Member("east")
	data, err := os.ReadFile(filepath.Join(f.Dir, "clusters/east/pids/kube-controller-manager.pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(string(data))
	if err != nil {
		t.Fatal(err)
	}
	if err := east.Whole(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is noticed", func(ctx context.Context) string {
		if err := east.Whole(ctx); err == nil || !strings.Contains(err.Error(), "kube-controller-manager") {
			return fmt.Sprint("it says ", err)
		}
		return ""
	})
	if err := east.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := east.Whole(t.Context()); err != nil {
		t.Error(err)
	}
}
