package judge

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"
)

// stopKey is one container that a request names. A restart of a workload gives the request of a pod always the same
// name, so a request that was made again counts as the same one.
type stopKey struct {
	pod                types.UID
	request, container string
}

// takeStop wants that a request stops the container that ran when it was created, and no other one after it.
func (c *Checker) takeStop(e *Entry) {
	s := e.Stop
	c.Restarts++
	c.record(e.At, e.Cluster, fmt.Sprintf("container %s of pod %s is stopped for request %s", s.Container, s.Name,
		s.Request))
	key := stopKey{s.Pod, s.Request, s.Container}
	before, again := c.stops[key]
	switch {
	case again && before != s.ID:
		c.violate(e.At, ruleRestart, fmt.Sprintf("%s: request %s restarts container %s of pod %s twice", e.Cluster,
			s.Request, s.Container, s.Name))
	case s.ID != s.Wanted:
		c.violate(e.At, ruleRestart, fmt.Sprintf("%s: request %s stops container %s of pod %s, which has restarted since "+
			"the request was created", e.Cluster, s.Request, s.Container, s.Name))
	}
	c.stops[key] = s.ID
}
