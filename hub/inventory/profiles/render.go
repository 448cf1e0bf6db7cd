package profiles

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// zone is the value of a zone's property.
type zone struct {
	Nodes       int32               `json:"nodes"`
	Ready       int32               `json:"ready"`
	Allocatable corev1.ResourceList `json:"allocatable,omitempty"`
	Requested   corev1.ResourceList `json:"requested,omitempty"`
}

// statusOf is what a profile says of a member. have is what it says now: what is the same keeps its time. It is pure.
func statusOf(m *topology.MemberCluster, have Status, now time.Time) (Status, error) {
	status := Status{Version: Version{Kubernetes: m.Status.KubernetesVersion}, Conditions: slices.Clone(have.Conditions)}
	for _, c := range []metav1.Condition{healthOf(m), joinedOf(m)} {
		c.LastTransitionTime = metav1.NewTime(now.Truncate(time.Second)) // as it is stored
		meta.SetStatusCondition(&status.Conditions, c)
	}
	properties, err := propertiesOf(m)
	if err != nil {
		return status, err
	}
	for i := range properties {
		p := &properties[i]
		p.LastObservedTime = metav1.NewTime(now.Truncate(time.Second))
		if j := slices.IndexFunc(have.Properties, func(old Property) bool {
			return old.Name == p.Name &&
				old.Value == p.Value
		}); j >= 0 {
			p.LastObservedTime = have.Properties[j].LastObservedTime
		}
	}
	status.Properties = properties
	return status, nil
}

func healthOf(m *topology.MemberCluster) metav1.Condition {
	c := metav1.Condition{
		Type:    ConditionControlPlaneHealthy,
		Status:  metav1.ConditionUnknown,
		Reason:  topology.ReasonNeverConnected,
		Message: "the hub has not judged the member yet",
	}
	if ready := meta.FindStatusCondition(m.Status.Conditions, topology.MemberReady); ready != nil {
		c.Reason, c.Message = ready.Reason, ready.Message
		if ready.Status == metav1.ConditionTrue {
			c.Status = metav1.ConditionTrue
		}
	}
	return c
}

func joinedOf(m *topology.MemberCluster) metav1.Condition {
	c := metav1.Condition{
		Type:    ConditionJoined,
		Status:  metav1.ConditionFalse,
		Reason:  topology.ReasonNeverConnected,
		Message: "the hub has not judged the member yet",
	}
	if accepted := meta.FindStatusCondition(m.Status.Conditions, topology.MemberAccepted); accepted != nil {
		c.Status, c.Reason, c.Message = accepted.Status, accepted.Reason, accepted.Message
	}
	return c
}

// propertiesOf are the member's properties without their times, in a stable order. What is not known is left out.
func propertiesOf(m *topology.MemberCluster) ([]Property, error) {
	region := m.Spec.Region
	if region == "" {
		region = m.Status.Region
	}
	var properties []Property
	for _, p := range []Property{
		{Name: PropertyID, Value: m.Name}, {Name: PropertyClusterID, Value: wire.ClusterID(m)},
		{Name: PropertyRegion, Value: region},
		{Name: PropertyZones, Value: m.Status.ZoneNames}, {Name: PropertyNodes, Value: m.Status.Nodes},
	} {
		if p.Value != "" {
			properties = append(properties, p)
		}
	}
	for i := range m.Status.Zones {
		z := &m.Status.Zones[i]
		value, err := json.Marshal(zone{z.Nodes, z.Ready, z.Allocatable, z.Requested})
		if err != nil {
			return nil, fmt.Errorf("encode zone %q of MemberCluster %s: %w", z.Name, m.Name, err)
		}
		name := PropertyNoZone
		if z.Name != "" {
			name = PropertyZone + z.Name
		}
		properties = append(properties, Property{Name: name, Value: string(value)})
	}
	return properties, nil
}
