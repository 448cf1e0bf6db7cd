package dashboard

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/tree"
	"github.com/flotilla-dev/flotilla/hub/kinds"
)

// started is the time of the fleets of tests.
func started() time.Time { return time.Date(2026, 11, 28, 9, 30, 0, 0, time.UTC) }

func member(name, region, zone string, ready bool) topology.MemberCluster {
	condition := func(kind string, is bool, reason, message string) metav1.Condition {
		status := metav1.ConditionFalse
		if is {
			status = metav1.ConditionTrue
		}
		return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
	}
	m := topology.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	m.Spec.Accepted, m.Spec.Region = true, region
	m.Status.Zones = []topology.Zone{{Name: zone, Nodes: 3, Ready: 3}}
	m.Status.Conditions = []metav1.Condition{condition(topology.MemberAccepted, true, "Accepted", "")}
	if ready {
		m.Status.Conditions = append(m.Status.Conditions, condition(topology.MemberReady, true, "LeaseFresh", ""))
	} else {
		m.Status.Conditions = append(m.Status.Conditions, condition(topology.MemberReady, false, "LeaseExpired",
			"the agent has not renewed its Lease for 40s: look at its log, and at the network between it and the hub"))
	}
	return m
}

func pods(desired, ready, updated int32) tree.Pods {
	return tree.Pods{Desired: desired, Placed: desired, Ready: ready, NotReady: desired - ready, Updated: updated}
}

// workload returns a workload with one row for each cluster, all in a zone.
func workload(kind, namespace, name, zone string, all tree.Pods, clusters ...tree.Cluster) tree.Workload {
	return tree.Workload{Kind: kind, Namespace: namespace, Name: name, Pods: all,
		Zones: []tree.Zone{{Name: zone, Pods: all, Clusters: clusters}}}
}

// example returns what a fleet of a shop is made from: an approval that waits, a failed wave, pods that do not start, a
// lost member, and workloads that are well.
func example() *input {
	in := &input{
		hub: "https://hub.example.org:6443", flags: " --context hub", now: started(),
		members: []topology.MemberCluster{
			member("east", "eu", "a", true), member("west", "eu", "b", true), member("north", "eu", "c", false),
			member("ohio", "us", "a", true), member("oregon", "us", "b", true), member("tokyo", "ap", "a", true),
		},
		may: map[string]bool{mayKey("CloneSet", "shop"): true, mayKey("StatefulSet", "data"): false},
	}
	cluster := func(name string, p tree.Pods) tree.Cluster { return tree.Cluster{Name: name, Pods: p} }
	api := workload("CloneSet", "shop", "api", "", pods(90, 90, 30), cluster("east", pods(30, 30, 30)),
		cluster("ohio", pods(30, 30, 0)), cluster("tokyo", pods(30, 30, 0)))
	api.Images = []tree.Image{{Images: []string{"registry.example.org/shop/api:1.26"}, Pods: 60},
		{Images: []string{"registry.example.org/shop/api:1.27"}, Pods: 30}}
	api.Wave = &tree.Wave{Number: 1, Of: 3, Name: "eu",
		Message: "wave 1 of 3 (eu) has soaked until 09:20, and waits for a person to approve it: flotilla rollout approve"}
	api.Waiting = api.Wave.Message
	db := workload("StatefulSet", "data", "db", "", pods(9, 9, 3), cluster("west", pods(3, 3, 3)),
		cluster("oregon", pods(6, 6, 0)))
	db.Wave = &tree.Wave{Number: 2, Of: 4, Name: "us",
		Message: "wave 2 of 4 (us) waits for a person to approve it: flotilla rollout approve"}
	cart := workload("CloneSet", "shop", "cart", "b", pods(12, 9, 12), cluster("west", pods(12, 9, 12)))
	cart.PodReasons = []kinds.PodReason{{Reason: "ImagePullBackOff", Container: "app", Count: 3, Cluster: "west",
		Pod: "cart-7xk2p", Message: "cannot pull image cart:2.0-typo", Clusters: map[string]int32{"west": 3}}}
	stale := workload("UnitedDeployment", "shop", "web", "c", pods(15, 15, 15),
		tree.Cluster{Name: "north", Stale: true, Pods: pods(15, 15, 15)})
	stale.Stale = []string{"north"}
	broken := workload("DaemonSet", "shop", "log-shipper", "", tree.Pods{Desired: 6})
	broken.Zones = nil
	broken.Problem = "no FederationPolicy selects it: create one, docs/kinds/federationpolicy.md"
	failed := workload("CloneSet", "shop", "search", "a", pods(24, 22, 4), cluster("east", pods(12, 10, 4)),
		cluster("ohio", pods(12, 12, 0)))
	failed.Wave = &tree.Wave{Number: 2, Of: 3, Name: "us", Failed: "2 pods crash",
		Message: "wave 2 of 3 (us) failed: 2 of 12 updated pods do not get available within 10m"}
	paused := workload("CloneSet", "shop", "mail", "a", pods(4, 4, 4), cluster("east", pods(4, 4, 4)))
	paused.Paused = true
	in.tree = &tree.Tree{Workloads: []tree.Workload{db, api, cart, broken, paused, failed, stale}}
	for i := range 14 {
		name := fmt.Sprintf("job-%02d", i)
		w := workload("CloneSet", "batch", name, "a", pods(6, 6, 6), cluster("ohio", pods(3, 3, 3)),
			cluster("tokyo", pods(3, 3, 3)))
		w.Images = []tree.Image{{Images: []string{"batch:3"}, Pods: 6}}
		in.tree.Workloads = append(in.tree.Workloads, w)
	}
	return in
}

// large returns what a fleet of so many members and workloads is made from. Each workload runs in all members.
func large(members, workloads int) *input {
	in := &input{hub: "https://hub.example.org:6443", now: started(), tree: &tree.Tree{}}
	var clusters []tree.Cluster
	for i := range members {
		name := fmt.Sprintf("member-%04d", i)
		m := member(name, fmt.Sprintf("region-%d", i%10), fmt.Sprintf("zone-%d", i%3), i%97 != 5)
		in.members = append(in.members, m)
		clusters = append(clusters, tree.Cluster{Name: name, Pods: pods(2, 2, 2), Stale: i%97 == 5})
	}
	for i := range workloads {
		w := workload("CloneSet", fmt.Sprintf("team-%02d", i%40), fmt.Sprintf("service-%04d", i), "",
			pods(int32(2*members), int32(2*members), int32(2*members)), clusters...)
		w.Zones[0].Clusters = append([]tree.Cluster(nil), clusters...) // as large as a real one
		if i%50 == 7 {
			w.Waiting = "18 of 20 pods are Ready"
		}
		in.tree.Workloads = append(in.tree.Workloads, w)
	}
	return in
}
