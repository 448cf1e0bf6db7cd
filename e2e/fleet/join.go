package fleet

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/inventory/registration"
	"github.com/flotilla-dev/flotilla/member-agent/link/credential"
)

// ApproverProgram is the name of the approver in Fleet.Programs.
const ApproverProgram = "flotilla-approver"

// RunApprover starts the approver of the hub program in folder bin, as a user of its own, and returns when it is ready.
// It approves certificates and gives rights to members that came by Join, or by the verbs of flotilla.
func (f *Fleet) RunApprover(ctx context.Context, bin string) error {
	kubeconfig, err := f.ApproverIdentity(ctx)
	if err != nil {
		return err
	}
	// The verb comes first: its flags are not those of the hub.
	return f.runVerb(ctx, ApproverProgram, filepath.Join(bin, HubProgram), "approver",
		[]string{"--kubeconfig=" + kubeconfig})
}

// joiner returns an administrator's client that knows what joining needs.
func (c *Cluster) joiner() (client.Client, error) {
	scheme, err := registration.Scheme()
	if err != nil {
		return nil, err
	}
	made, err := client.New(c.admin, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", c.Name, err)
	}
	return made, nil
}

// Join makes the member one of the hub as people do: token, join, accept. Its agent of folder bin is started with a
// certificate of the hub's own signer. The approver must run. A member that has joined is left as it is, and its agent
// is started.
func (f *Fleet) Join(ctx context.Context, bin string, member *Cluster) error {
	hub, err := f.Hub().joiner()
	if err != nil {
		return err
	}
	there, err := member.joiner()
	if err != nil {
		return err
	}
	err = there.Get(ctx, client.ObjectKey{Namespace: topology.SystemNamespace, Name: topology.JoinSecret},
		&corev1.Secret{})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("look at %s: %w", member.Name, err)
	}
	if err != nil {
		token, err := registration.CreateToken(ctx, hub, member.Name, registration.DefaultTokenLife)
		if err != nil {
			return err
		}
		join := &credential.Join{
			Name: member.Name, UID: token.UID, Token: token.Token, Expires: token.Expires, Server: f.Hub().admin.Host,
			CA: string(f.Hub().admin.CAData),
		}
		if _, err := credential.Equip(ctx, there, join); err != nil {
			return err
		}
	}
	if err := f.RunJoined(ctx, bin, member); err != nil {
		return err
	}
	var last error
	err = poll(ctx, time.Minute, func(ctx context.Context) (bool, error) {
		_, last = registration.Accept(ctx, hub, member.Name, "")
		if errors.Is(last, registration.ErrNoRequest) {
			return false, nil
		}
		return true, last
	})
	if err != nil {
		return fmt.Errorf("accept %s: %w (%w); the end of its agent's log (%s):\n%s", member.Name, err, last,
			f.LogFile(AgentName(member.Name)), f.LogTail(AgentName(member.Name), 5))
	}
	return nil
}

// RunJoined starts the agent of a member that has the Secret of a join.
func (f *Fleet) RunJoined(ctx context.Context, bin string, member *Cluster, args ...string) error {
	kubeconfig, err := f.AgentIdentity(ctx, member)
	if err != nil {
		return err
	}
	args = append([]string{"--kubeconfig=" + kubeconfig, "--hub-secret=" + topology.JoinSecret}, args...)
	return f.runServing(ctx, AgentName(member.Name), filepath.Join(bin, AgentProgram), member, args)
}
