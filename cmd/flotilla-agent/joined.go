package main

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/cmd/internal/clocks"
	memberagent "github.com/flotilla-dev/flotilla/member-agent"
	"github.com/flotilla-dev/flotilla/member-agent/link/credential"
	"github.com/flotilla-dev/flotilla/member-agent/link/dial"
)

// joined reads from the member what flotilla join wrote there: the hub, and under which name the member joins. The hub
// is dialled with a certificate, which may be there already or be asked for later.
func (f *flags) joined(ctx context.Context, member *rest.Config, log logr.Logger, options *memberagent.Options) error {
	c, err := client.New(member, client.Options{})
	if err != nil {
		return fmt.Errorf("connect to the member at %s: %w", member.Host, err)
	}
	join, err := credential.ReadJoin(ctx, c, f.leaderNamespace, f.hubSecret)
	if err != nil {
		return err
	}
	system := &corev1.Namespace{}
	if err := c.Get(ctx, types.NamespacedName{Name: metav1.NamespaceSystem}, system); err != nil {
		return fmt.Errorf("read the identity of the member at %s: %w", member.Host, err)
	}
	options.Credential = credential.New(credential.Config{
		Member: c, Namespace: f.leaderNamespace, JoinSecret: f.hubSecret, ClusterID: string(system.UID),
		UserAgent: "flotilla-agent/" + version(), Clock: clocks.New(), Log: log.WithName("credential"),
	})
	options.Hub = dial.Watchful(options.Credential.RESTConfig(join))
	options.ClusterName = join.Name
	return nil
}
