package harness

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"sync"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/flotilla-dev/flotilla/e2e/fleet"
)

// Relay stands between the agent of one member and the hub, and can cut the two off from one another, while both run.
type Relay struct {
	target   string
	listener net.Listener

	mu    sync.Mutex
	cut   bool
	conns map[net.Conn]bool
	group sync.WaitGroup
}

// Relay lets the agent of a member dial the hub through a relay from now on; it is restarted for that. The returned
// function undoes it, and waits until the member is Ready over its own link.
func (h *Harness) Relay(ctx context.Context, member string) (relay *Relay, undo func(context.Context) error,
	err error) {
	path, err := h.Fleet.MemberIdentity(ctx, member)
	if err != nil {
		return nil, nil, err
	}
	direct, err := os.ReadFile(path) //nolint:gosec // a path of the fleet's own
	if err != nil {
		return nil, nil, fmt.Errorf("read the kubeconfig of %s: %w", member, err)
	}
	config, err := clientcmd.Load(direct)
	if err != nil {
		return nil, nil, fmt.Errorf("read the kubeconfig of %s: %w", member, err)
	}
	cluster := config.Clusters[config.Contexts[config.CurrentContext].Cluster]
	server, err := url.Parse(cluster.Server)
	if err != nil {
		return nil, nil, fmt.Errorf("read the address of the hub: %w", err)
	}
	r := &Relay{target: server.Host, conns: map[net.Conn]bool{}}
	if r.listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0"); err != nil {
		return nil, nil, fmt.Errorf("listen for the agent of %s: %w", member, err)
	}
	beyond := context.WithoutCancel(ctx) // it ends with close
	r.group.Go(func() { r.accept(beyond) })
	server.Host = r.listener.Addr().String()
	cluster.Server = server.String()
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return nil, nil, fmt.Errorf("write the kubeconfig of %s: %w", member, err)
	}
	return r, func(ctx context.Context) error {
		defer r.close()
		if err := os.WriteFile(path, direct, 0o600); err != nil {
			return fmt.Errorf("write the kubeconfig of %s: %w", member, err)
		}
		if err := h.again(ctx, member); err != nil {
			return err
		}
		return h.Fleet.WaitMembersReady(ctx, Patience)
	}, h.again(ctx, member)
}

// again restarts the agent of a member, so that it reads its kubeconfig anew.
func (h *Harness) again(ctx context.Context, member string) error {
	name := fleet.AgentName(member)
	if err := h.Fleet.Kill(ctx, name); err != nil {
		return err
	}
	if err := h.Fleet.Restart(name); err != nil {
		return err
	}
	return h.Fleet.WaitReady(ctx, name)
}

// Cut ends every connection and lets none through, until Join.
func (r *Relay) Cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut = true
	for conn := range r.conns {
		_ = conn.Close() // it is being cut
	}
}

// Join lets connections through again.
func (r *Relay) Join() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut = false
}

func (r *Relay) close() {
	_ = r.listener.Close() // ends accept
	r.Cut()
	r.group.Wait()
}

func (r *Relay) accept(ctx context.Context) {
	for {
		conn, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.group.Go(func() { r.carry(ctx, conn) })
	}
}

// carry copies both ways until either side ends.
func (r *Relay) carry(ctx context.Context, agent net.Conn) {
	defer func() { _ = agent.Close() }() // the copies have ended, or never began
	hub, err := (&net.Dialer{}).DialContext(ctx, "tcp", r.target)
	if err != nil {
		return
	}
	defer func() { _ = hub.Close() }()
	if !r.take(agent, hub) {
		return
	}
	defer r.drop(agent, hub)
	var group sync.WaitGroup
	for _, way := range [][2]net.Conn{{agent, hub}, {hub, agent}} {
		group.Go(func() {
			_, _ = io.Copy(way[0], way[1]) // either side may end it
			_, _ = way[0].Close(), way[1].Close()
		})
	}
	group.Wait()
}

func (r *Relay) take(conns ...net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cut {
		return false
	}
	for _, conn := range conns {
		r.conns[conn] = true
	}
	return true
}

func (r *Relay) drop(conns ...net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, conn := range conns {
		delete(r.conns, conn)
	}
}
