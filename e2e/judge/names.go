package judge

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// twin is a pod that came while another one of its name existed.
type twin struct {
	name       string
	one, other types.UID
	at, until  time.Time // it is dropped if one of them is gone before
	what       string
	trace      []string
}

// name judges the name of a pod that exists: in each cluster the API server keeps names apart.
func (c *Checker) name(set *checkedCell, now *checkedPod, e *Entry) {
	if now.Gone || now.Ended {
		delete(c.named[now.Name], now.UID)
		return
	}
	if set == nil || !set.Unique {
		return
	}
	holders := c.named[now.Name]
	if holders == nil {
		holders = map[types.UID]string{}
		c.named[now.Name] = holders
	}
	if _, known := holders[now.UID]; known {
		return
	}
	for uid, cluster := range holders {
		if cluster == e.Cluster {
			continue // the end of the earlier one was not observed
		}
		c.Suspicions++
		c.twins = append(c.twins, twin{now.Name, uid, now.UID, e.At, c.stalls.after(e.At, ordering),
			fmt.Sprintf("%s: %s creates pod %s, which exists in %s", e.Cluster, set, now.Name, cluster),
			slices.Clone(c.trace[max(0, len(c.trace)-traceLength):])})
	}
	holders[now.UID] = e.Cluster
}

// exists reports whether both pods still exist.
func (c *Checker) exists(t twin) bool {
	_, one := c.named[t.name][t.one]
	_, other := c.named[t.name][t.other]
	return one && other
}

// reviewTwins drops pairs that were a matter of the order in which events were observed.
func (c *Checker) reviewTwins(now time.Time) {
	c.twins = slices.DeleteFunc(c.twins, func(t twin) bool { return !now.After(t.until) && !c.exists(t) })
}

// ripenTwins makes violations of pairs that were not dropped in time.
func (c *Checker) ripenTwins(now time.Time) {
	c.twins = slices.DeleteFunc(c.twins, func(t twin) bool {
		if !now.After(t.until) {
			return false
		}
		c.violate(t.at, ruleNames, t.what)
		if n := len(c.Violations); n > 0 && c.Violations[n-1].What == t.what {
			c.Violations[n-1].Trace = t.trace
		}
		return true
	})
}
