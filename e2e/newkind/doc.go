// Package newkind holds that a kind is added by one entry of the hub's table and one controller of the agent, and
// nothing else: its tests add a divided kind and a cluster-scoped one that each member has whole.
//
//	types_test.go   the types and definitions of the two kinds, as apis/ has those of real ones
//	rack_test.go    the divided kind: its entry of the table, which stands for a file of hub/kinds, and its controller,
//	                which stands for a folder of member-agent/workloads
//	beacon_test.go  the same for the kind that each member has whole
package newkind
