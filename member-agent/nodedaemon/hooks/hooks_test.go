package hooks

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	internalapi "k8s.io/cri-api/pkg/apis"
	"k8s.io/utils/clock"
	utilexec "k8s.io/utils/exec"
)

// answering is a runtime whose commands end with stderr and err.
type answering struct {
	internalapi.RuntimeService
	stderr string
	err    error
}

func (a answering) ExecSync(context.Context, string, []string, time.Duration) (stdout, stderr []byte, err error) {
	return nil, []byte(a.stderr), a.err
}

func TestExec(t *testing.T) {
	exit := utilexec.CodeExitError{Err: errors.New("command 'a long command with a secret' exited with 3: "), Code: 3}
	many := strings.Repeat("é", 1000)
	for name, row := range map[string]struct {
		answer answering
		want   string
	}{
		"done":               {answering{}, ""},
		"an exit code":       {answering{err: exit}, "exec: exit code 3"},
		"with output":        {answering{err: exit, stderr: "no\n"}, "exec: exit code 3: no"},
		"with a lot of it":   {answering{err: exit, stderr: many}, "exec: exit code 3: " + many[:256]},
		"it cannot be run":   {answering{err: errors.New("no such file")}, "exec: no such file"},
		"cut at a character": {answering{err: exit, stderr: "x" + many}, "exec: exit code 3: x" + many[:254]},
	} {
		t.Run(name, func(t *testing.T) {
			runner := Runner{Runtime: row.answer, Clock: clock.RealClock{}}
			err := runner.Run(t.Context(), Hook{Exec: &corev1.ExecAction{Command: []string{"x"}}}, "c", time.Minute)
			if got := text(err); got != row.want {
				t.Errorf("%q, want %q", got, row.want)
			}
		})
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestHTTPGet: certificates of pods are not verified, Host is that of the headers, and only the pod is asked.
func TestHTTPGet(t *testing.T) {
	asked := make(chan string, 1)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Host + r.URL.String()
		http.Redirect(w, r, "http://169.254.169.254/", http.StatusFound)
	}))
	t.Cleanup(server.Close)
	_, port, _ := strings.Cut(strings.TrimPrefix(server.URL, "https://"), ":")
	number, err := strconv.ParseInt(port, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		host, port, address, says string
	}{
		"asked":        {"", port, "127.0.0.1", ""},
		"by its name":  {"127.0.0.1", "admin", "127.0.0.1", ""},
		"another host": {"169.254.169.254", port, "127.0.0.1", "169.254.169.254 is not the address of the pod"},
		"no address":   {"", port, "", "no address"},
		"no port":      {"", "none", "127.0.0.1", "no port none"},
	} {
		t.Run(name, func(t *testing.T) {
			hook := Of(&corev1.Container{Ports: []corev1.ContainerPort{{Name: "admin", ContainerPort: int32(number)}},
				Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{
					Host: row.host, Path: "drain", Port: intstr.FromString(row.port), Scheme: corev1.URISchemeHTTPS,
					HTTPHeaders: []corev1.HTTPHeader{{Name: "host", Value: "web.shop"}}}}}}, row.address)
			err := Runner{Clock: clock.RealClock{}}.Run(t.Context(), hook, "c", time.Minute)
			if !strings.Contains(text(err), row.says) || (err == nil) != (row.says == "") {
				t.Fatalf("%v, want %q", err, row.says)
			}
			if err != nil {
				return
			}
			if got := <-asked; got != "web.shop/drain" {
				t.Errorf("asked %s", got)
			}
		})
	}
}

func TestSleepEndsWithTheGracePeriod(t *testing.T) {
	begun := time.Now()
	hook := Hook{Sleep: &corev1.SleepAction{Seconds: 1000}}
	if err := (Runner{Clock: clock.RealClock{}}).Run(t.Context(), hook, "c", 50*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
}
