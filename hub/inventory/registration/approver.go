package registration

import (
	"fmt"

	"github.com/go-logr/logr"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/contact"
)

// LeaderElectionID is the name of the Lease that the active approver holds.
const LeaderElectionID = "flotilla-approver"

// Options are what an approver is started with.
type Options struct {
	// MetricsBindAddress and HealthProbeBindAddress are host:port; "0" switches the server off.
	MetricsBindAddress     string
	HealthProbeBindAddress string
	// LeaderElection lets one of several approvers act, by a Lease in LeaderElectionNamespace.
	LeaderElection          bool
	LeaderElectionNamespace string
	// Clock tells the time; nil is the real clock.
	Clock clock.PassiveClock
	// SkipNameValidation allows several managers in one process, for tests.
	SkipNameValidation bool
	Logger             logr.Logger
}

// NewManager returns a manager that runs the approver once it is started. cfg is not changed.
func NewManager(cfg *rest.Config, o Options) (ctrl.Manager, error) {
	scheme, err := Scheme()
	if err != nil {
		return nil, err
	}
	caching, err := CacheOptions()
	if err != nil {
		return nil, err
	}
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1 // the API server's priority and fairness limits us, not a bucket in the client
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	mgr, err := contact.NewManager(cfg, ctrl.Options{
		Scheme: scheme, Logger: o.Logger, Cache: caching,
		Metrics: metricsserver.Options{BindAddress: o.MetricsBindAddress}, HealthProbeBindAddress: o.HealthProbeBindAddress,
		LeaderElection: o.LeaderElection, LeaderElectionID: LeaderElectionID,
		LeaderElectionNamespace:       o.LeaderElectionNamespace,
		LeaderElectionReleaseOnCancel: true, Controller: config.Controller{SkipNameValidation: new(o.SkipNameValidation)},
	}, o.Clock)
	if err != nil {
		return nil, fmt.Errorf("create the manager: %w", err)
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return nil, fmt.Errorf("add health check: %w", err)
	}
	if err := mgr.AddReadyzCheck("ping", healthz.Ping); err != nil {
		return nil, fmt.Errorf("add readiness check: %w", err)
	}
	return mgr, Setup(mgr, o.Clock)
}

// ApproverRules are what the approver may do on the hub. It can give members no right that it does not have itself, so
// theirs are among them; the API server sees to that.
func ApproverRules() []rbacv1.PolicyRule {
	const rbac = "rbac.authorization.k8s.io"
	rules := []rbacv1.PolicyRule{
		rule(topology.GroupVersion.Group, "memberclusters", "", "get", "list", "watch"),
		rule(topology.GroupVersion.Group, "memberclusters/status", "", "patch"),
		rule("certificates.k8s.io", "certificatesigningrequests", "", "create", "delete", "get", "list", "patch", "watch"),
		rule("certificates.k8s.io", "certificatesigningrequests/approval", "", "update"),
		rule("certificates.k8s.io", "signers", topology.MemberSigner, "approve"),
		rule("", "namespaces", "", "create", "get"),
	}
	for _, resource := range []string{"clusterroles", "clusterrolebindings", "roles", "rolebindings"} {
		rules = append(rules, rule(rbac, resource, "", "create", "delete", "get", "list", "update", "watch"))
	}
	for _, r := range NamespaceRules("") {
		r.ResourceNames = nil // they are given by name, to members whose names are not known yet
		rules = append(rules, r)
	}
	return rules
}

// ApproverNamespaceRules are what the approver may do in SystemNamespace: end tokens for joining, and hold its Lease.
func ApproverNamespaceRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rule("", "serviceaccounts", "", "delete", "get", "list", "watch"),
		rule("coordination.k8s.io", "leases", "", "create", "get", "update"),
		rule("", "events", "", "create", "patch"),
		rule("events.k8s.io", "events", "", "create", "patch"),
	}
}

// ApproverMembersRules are what the approver may do in MembersNamespace: make tokens of members.
func ApproverMembersRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rule("", "serviceaccounts", "", "create", "delete", "get", "list", "watch"),
		rule("", "serviceaccounts/token", "", "create"),
	}
}
