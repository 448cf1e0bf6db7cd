package capi

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// Cluster is a cluster that is to be a member, as its kubeconfig reaches it.
type Cluster interface {
	// Look reads what there is of Flotilla.
	Look(ctx context.Context) (*Sight, error)
	// Equip writes what an agent joins with, as flotilla join does, and returns the fingerprint of the key that the agent
	// shows.
	Equip(ctx context.Context, join Join) (fingerprint string, err error)
	// Install applies the CustomResourceDefinitions and the agent's objects.
	Install(ctx context.Context) error
	// Uninstall removes the agent's objects, and what it joined with. Definitions stay, and with them the objects of
	// users.
	Uninstall(ctx context.Context) error
	// SetZones gives nodes the label of a zone, those that have none and that no cloud provider is about to give one. It
	// returns how many it gave one.
	SetZones(ctx context.Context, zones map[string]string) (int, error)
}

// Dial returns a cluster; it asks it nothing.
type Dial func(cfg *rest.Config) (Cluster, error)

// Join is what an agent joins with.
type Join struct {
	Name       string
	UID        types.UID
	Server, CA string
	Token      string
	Expires    time.Time
}

// Sight is what there is of Flotilla in a cluster.
type Sight struct {
	// ClusterID is the uid of namespace kube-system.
	ClusterID string
	// Join is what the agent joined with, nil if nothing is there. Its token is left out.
	Join *Join
	// Fingerprint of the agent's key, empty if there is none.
	Fingerprint string
	// Installed tells whether the agent's objects are those that Install applies, or somebody else's.
	Installed bool
}
