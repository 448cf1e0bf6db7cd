// Package agent is what flotilla-capi does in a cluster that is to be a member, by the kubeconfig of that cluster: it
// reads what there is of Flotilla, writes what flotilla join writes, and applies the agent's objects. Those are read
// from a file, which the chart flotilla-capi renders from the templates of the chart flotilla-agent: there is no other
// list of them. The definitions are package crds'.
//
// What the charts were installed for by a person stays as it is, known by Helm's label; so do CustomResourceDefinitions
// that somebody else made.
package agent
