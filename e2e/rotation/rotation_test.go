//go:build e2e

package rotation

import (
	"bufio"
	"context"
	"crypto/x509"
	"encoding/pem"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/apis/crds"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/hub/inventory/registration"
)

var (
	// life is how long a certificate lives. The agent keeps one for 30 s at least, and renews it when two thirds are over.
	life = flag.Duration("life", time.Minute, "how long certificates live: 1m or more")
	// lasts is how long rollouts are made.
	lasts = flag.Duration("for", 3*time.Minute, "how long rollouts are made")
)

// patience is how long the test waits for what takes seconds on a quiet machine.
const patience = 5 * time.Minute

// manifests are a federated namespace, a policy and a workload.
const manifests = `
apiVersion: topology.flotilla.dev/v1alpha1
kind: FederationPolicy
metadata: {name: everywhere, namespace: shop}
spec: {workloads: [{kind: CloneSet}], clusters: {}, spread: {by: Cluster, type: Even}}
---
apiVersion: apps.kruise.io/v1beta1
kind: CloneSet
metadata: {name: api, namespace: shop}
spec:
  replicas: 6
  selector: {matchLabels: {app: api}}
  template:
    metadata: {labels: {app: api}}
    spec: {containers: [{name: api, image: "api:0"}]}
  updateStrategy: {rollingUpdate: {podUpdatePolicy: InPlaceIfPossible, maxUnavailable: 2}}
`

// world is a hub and one member, joined with a certificate of the hub's signer.
type world struct {
	t           *testing.T
	fleet       *fleet.Fleet
	hub, member client.Client
}

// TestRotation makes one rollout after the other while the agent's certificate is renewed again and again: each rollout
// ends, the member is Ready throughout, the agent is never refused and never restarted.
func TestRotation(t *testing.T) {
	w := newWorld(t)
	agent := fleet.AgentName("east")
	pid, since := w.fleet.Pid(agent), w.ready()
	began, rollouts, slowest := time.Now(), 0, time.Duration(0)
	serials := map[string]bool{w.certificate().SerialNumber.String(): true}
	for time.Since(began) < *lasts {
		rollouts++
		image := fmt.Sprintf("api:%d", rollouts)
		start := time.Now()
		w.rollOut(image)
		slowest = max(slowest, time.Since(start))
		cert := w.certificate()
		serials[cert.SerialNumber.String()] = true
		if left := time.Until(cert.NotAfter); left > *life {
			t.Fatalf("the signer gave a certificate that lives for another %s, and the test is about %s", left, *life)
		}
	}
	// One is renewed at 66 to 74 hundredths of its life, which the signer begins 5 minutes ago, and after 30 s at the
	// soonest. The machine may be slow.
	const backdated, soonest, slow = 5 * time.Minute, 30 * time.Second, 1.3
	period := max(soonest, time.Duration(0.74*float64(*life+backdated))-backdated)
	least := int(lasts.Seconds() / (slow * period.Seconds()))
	if len(serials) < least {
		t.Errorf("in %s the agent had %d certificates of %s, want %d or more", *lasts, len(serials), *life, least)
	}
	if now := w.fleet.Pid(agent); now != pid || !w.fleet.Running(agent) {
		t.Errorf("the agent was process %d, and is %d", pid, now)
	}
	if now := w.ready(); !now.Equal(&since) {
		t.Errorf("the member became Ready at %s, and again at %s", since, now)
	}
	for line := range strings.Lines(w.fleet.LogTail(agent, 100_000)) {
		if strings.Contains(line, "Unauthorized") || strings.Contains(line, "forbidden") {
			t.Errorf("the agent was refused: %s", line)
		}
	}
	w.expectNoRefusals(agent)
	t.Logf("%d rollouts in %s, the slowest in %s, with %d certificates of %s", rollouts,
		time.Since(began).Round(time.Second), slowest.Round(10*time.Millisecond), len(serials), *life)
}

func newWorld(t *testing.T) *world {
	t.Helper()
	log.SetLogger(logr.Discard())
	f := fleet.ForTest(t, fleet.Config{CertificateLife: *life,
		Members: []fleet.ClusterSpec{{Name: "east", Nodes: fleet.Nodes("east", "eu", []string{"a"}, 2)}}})
	scheme, err := registration.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	if err := apps.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, fleet: f}
	for c, to := range map[*fleet.Cluster]*client.Client{f.Hub(): &w.hub, f.Member("east"): &w.member} {
		if err := c.InstallCRDs(t.Context(), crds.FS); err != nil {
			t.Fatal(err)
		}
		if *to, err = client.New(c.RESTConfig(), client.Options{Scheme: scheme}); err != nil {
			t.Fatal(err)
		}
	}
	for _, program := range []string{fleet.HubProgram, fleet.AgentProgram} {
		if _, err := os.Stat(filepath.Join(f.Bin(), program)); err != nil {
			t.Fatalf("%v: run make programs", err)
		}
	}
	for _, step := range []func() error{
		func() error { return f.RunHub(t.Context(), f.Bin()) },
		func() error { return f.RunApprover(t.Context(), f.Bin()) },
		func() error { return f.Join(t.Context(), f.Bin(), f.Member("east")) },
		func() error { return f.WaitMembersReady(t.Context(), patience) },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	shop := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop",
		Labels: map[string]string{topology.LabelFederated: "true"}}}
	if err := w.hub.Create(t.Context(), shop); err != nil {
		t.Fatal(err)
	}
	policy, workload := &topology.FederationPolicy{}, &apps.CloneSet{}
	for i, manifest := range strings.Split(manifests, "---\n") {
		object := []client.Object{policy, workload}[i]
		if err := yaml.UnmarshalStrict([]byte(manifest), object); err != nil {
			t.Fatal(err)
		}
		if err := w.hub.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// rollOut gives the workload an image, and waits until all pods of the member run it.
func (w *world) rollOut(image string) {
	w.t.Helper()
	patch := fmt.Sprintf(`[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":%q}]`, image)
	workload := &apps.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "api"}}
	if err := w.hub.Patch(w.t.Context(), workload, client.RawPatch(types.JSONPatchType, []byte(patch))); err != nil {
		w.t.Fatal(err)
	}
	w.eventually("a rollout to "+image, func(ctx context.Context) string {
		if err := w.hub.Get(ctx, client.ObjectKeyFromObject(workload), workload); err != nil {
			return err.Error()
		}
		s := &workload.Status
		if s.ObservedGeneration < workload.Generation || s.UpdatedReadyReplicas != 6 || s.Replicas != 6 {
			return fmt.Sprintf("generation %d of %d, %d of %d pods are updated and ready", s.ObservedGeneration,
				workload.Generation, s.UpdatedReadyReplicas, s.Replicas)
		}
		return ""
	})
}

func (w *world) eventually(what string, problem func(ctx context.Context) string) {
	w.t.Helper()
	fleet.Eventually(w.t, patience, what, problem, func() string {
		return "; the end of the agent's log:\n" + w.fleet.LogTail(fleet.AgentName("east"), 20)
	})
}

// certificate returns the one that the agent has now.
func (w *world) certificate() *x509.Certificate {
	w.t.Helper()
	secret := &corev1.Secret{}
	if err := w.member.Get(w.t.Context(), client.ObjectKey{Namespace: topology.SystemNamespace,
		Name: topology.CredentialSecret}, secret); err != nil {
		w.t.Fatal(err)
	}
	block, _ := pem.Decode(secret.Data[topology.CredentialCertificate])
	if block == nil {
		w.t.Fatal("the agent has no certificate")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		w.t.Fatal(err)
	}
	return cert
}

// ready returns since when the member is Ready.
func (w *world) ready() metav1.Time {
	w.t.Helper()
	member := &topology.MemberCluster{}
	if err := w.hub.Get(w.t.Context(), client.ObjectKey{Name: "east"}, member); err != nil {
		w.t.Fatal(err)
	}
	condition := meta.FindStatusCondition(member.Status.Conditions, topology.MemberReady)
	if condition == nil || condition.Status != metav1.ConditionTrue {
		w.t.Fatalf("the member is not Ready: %+v", condition)
	}
	return condition.LastTransitionTime
}

// expectNoRefusals reads from the agent's metrics what API servers answered it: never that it is unknown or may not.
func (w *world) expectNoRefusals(agent string) {
	w.t.Helper()
	url, err := w.fleet.MetricsURL(agent)
	if err != nil {
		w.t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		w.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		w.t.Fatal(err)
	}
	defer response.Body.Close()
	refused, counted := regexp.MustCompile(`^rest_client_requests_total\{.*code="(401|403)"`), 0
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "rest_client_requests_total{") {
			counted++
		}
		if refused.MatchString(lines.Text()) {
			w.t.Errorf("the agent was refused: %s", lines.Text())
		}
	}
	if counted == 0 {
		w.t.Error("the agent counts no requests")
	}
}
