// Package dashboard is the verb `flotilla dashboard`: a page on this machine that shows the fleet, its workloads, and
// what needs a person, with the commands to copy. It only reads, with the rights of the user's kubeconfig.
//
//	Source  what the hub has  →  Fleet, made again after each change and never changed afterwards
//	view    what one page shows of a Fleet: pages of lists, filtered by the server, so that its size is bounded
//	stream  a snapshot of the view, then what differs, as server-sent events
package dashboard
