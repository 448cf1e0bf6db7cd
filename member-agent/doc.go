// Package memberagent is what runs in every member cluster: it takes orders from the hub, lets the workload controllers
// carry them out, and reports back. The stages have the numbers of the picture in hub/doc.go; 0 to 3 and 7 to 8
// are the hub's.
//
//		Works on the hub ─4─► apply ──► member object ─5─► workload controllers ──► pods
//		                                     │
//		Work.status  ◄──────6── report ◄─────┘
//
//	  - link: the connection to the hub, which both use. It also tells the hub that the member lives, and what it has.
//	  - 4, apply: a Work becomes an object of the member, and stays one: drift is repaired.
//	  - 5, workloads/<kind> on kernel/: the controllers of OpenKruise's API. They never talk to a hub:
//	    what it grants they learn from workload.Gate and from annotations of their objects.
//	  - 6, report: the object's status goes back, with the order that it answers and what is in use of the lent shares.
//	  - objects: what stands in the member with a hub's mark, for apply and report.
//
// Without a hub, 5 is all there is: the agent is then the workload manager of one cluster.
package memberagent
