// Package allow reads which annotations of pods SidecarSets may overwrite: from the ConfigMap kruise-configuration of
// the agent's namespace, and of kruise-system, where an OpenKruise manager reads it.
package allow

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/inject"
)

// KruiseNamespace is where an OpenKruise manager has its objects.
const KruiseNamespace = "kruise-system"

// Interval is how soon a change of the ConfigMaps counts.
const Interval = 30 * time.Second

// Source knows what is allowed. It reads on every replica, as a runnable of the manager.
type Source struct {
	// Live reads from the API server: a watch would need the right to read all ConfigMaps.
	Live       client.Reader
	Namespaces []string
	// Needed reports whether any SidecarSet asks for it; nothing is read otherwise.
	Needed func(context.Context) bool

	known atomic.Pointer[inject.Allowed]
	wrong atomic.Pointer[error]
	// readAt is when the ConfigMaps were read last, in nanoseconds since 1970; 0 is never.
	readAt atomic.Int64
}

var _ manager.LeaderElectionRunnable = &Source{}

// NeedLeaderElection is false: every replica injects.
func (s *Source) NeedLeaderElection() bool { return false }

// Start reads until ctx ends.
func (s *Source) Start(ctx context.Context) error {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if s.Needed == nil || s.Needed(ctx) {
			s.Read(ctx)
		}
	}, Interval)
	return nil
}

// Known returns what was read last, and what is wrong with it. It does not wait.
func (s *Source) Known() (inject.Allowed, error) {
	var allowed inject.Allowed
	var err error
	if known := s.known.Load(); known != nil {
		allowed = *known
	}
	if wrong := s.wrong.Load(); wrong != nil {
		err = *wrong
	}
	return allowed, err
}

// Refresh reads the ConfigMaps unless they were read less than an interval before now.
func (s *Source) Refresh(ctx context.Context, now time.Time) {
	if at := s.readAt.Load(); at != 0 && now.Sub(time.Unix(0, at)) < Interval {
		return
	}
	s.Read(ctx)
	s.readAt.Store(now.UnixNano())
}

// Read reads the ConfigMaps. One that cannot be read or used allows nothing, and what it allowed before goes on.
func (s *Source) Read(ctx context.Context) {
	var all inject.Allowed
	for _, namespace := range s.Namespaces {
		allowed, err := s.read(ctx, namespace)
		if err != nil {
			s.wrong.Store(&err)
			return
		}
		all = all.With(allowed)
	}
	s.known.Store(&all)
	s.wrong.Store(nil)
}

func (s *Source) read(ctx context.Context, namespace string) (inject.Allowed, error) {
	config := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: namespace, Name: inject.AllowedConfigMap}
	if err := s.Live.Get(ctx, key, config); apierrors.IsNotFound(err) {
		return inject.Allowed{}, nil
	} else if err != nil {
		return inject.Allowed{}, fmt.Errorf("read ConfigMap %s: %w", key, err)
	}
	allowed, err := inject.ParseAllowed(config.Data[inject.AllowedKey])
	if err != nil {
		return inject.Allowed{}, fmt.Errorf("ConfigMap %s: %w", key, err)
	}
	return allowed, nil
}
