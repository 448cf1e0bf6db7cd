// Package lending lends the limits of one global rollout to the cells that the workload is divided over. It is pure.
//
// Every limit is an amount of permission ([Amounts]): how many pods may run the new revision, be unavailable by us,
// exist above replicas. For each amount a cell has what is granted to it, and what is reserved for it: what it may
// still be using, because it has not acknowledged a smaller grant yet. What is promised: after every call, for each
// amount,
//
//	granted ≤ reserved   and   Σ reserved ≤ max(global, Σ reserved before)
//
// so a grant is raised only by what nobody holds, and a lower grant frees something only when its cell has said so.
// When the user lowers a global amount, Σ reserved falls to it as the cells confirm.
//
// # The rules
//
// Confirming: if the report's sequence is at least that of the order, reserved falls to max(grant, in use). It never
// rises by a report.
//
// Updated is lent in proportion to replicas, at most replicas, and stays where it is otherwise ([division.Seats]). When
// the user lowers it, cells have more updated pods than their grant. A member brings them back to the old revision if
// it still has one; one whose pods were all updated once has none (Report.CanGoBack is false). What such a cell has is
// lent to it first, so that the others go back for it: the sum comes down to the global amount, or to what no cell can
// bring back. Pods that are updated already come before pods that are not, so that none goes back for another one.
//
// A cell may have a ceiling (package waves): it gets no more than that of Updated, and keeps what it has above it.
//
// Unavailable and Surge are lent in proportion to replicas while no cell has reported (a new workload, a new template),
// first of all to cells that have a part of Updated, up to that part. Then:
//
//	a cell works        if it has reported fewer updated pods than its Updated grant, or more and can go back, or pods to
//	                    restart in place. It keeps what it has; added permission goes to working cells in proportion to
//	                    the pods that they still have to update, to bring back or to restart, and up to that.
//	a cell is silent    if it has not reported. It keeps what it has and gets no more.
//	a cell is finished  otherwise. It keeps only what the working and silent cells cannot use; the rest is handed on, once
//	                    the cell confirms that it no longer uses it.
//	a cell is lost      if its lease has run out, whatever it reported. It keeps only what others cannot use, as a finished
//	                    cell does. The rest is handed on when its lower order is written (Told), and not when it confirms.
//
// Updated of a lost cell is not handed on: its pods may have been updated after its last report, until its lease ran
// out, and they stay updated. It gets nothing more.
//
// Pods to restart count for Unavailable alone: a restart in place has no use for Surge. While a cell has pods to update
// or to bring back, cells that have only pods to restart keep what they use, and what the others cannot use.
//
// So one unit over three cells is 1/0/0, then 0/1/0, then 0/0/1.
//
// At rest, when all cells are finished and none of them uses Unavailable or Surge, both go back to the parts by
// replicas, once: the cells that finished last have most of them, and the next update would begin with cells that have
// none. A part that is no whole number stays where it is, above or below: one unit stays with the last cell. A call
// with the grants of the last call and no new report changes nothing.
//
// A cell can have a floor of Unavailable (Floor), for a budget over pods that count whatever made them unavailable. The
// floors are served first, and only what is left of the global amount is lent by these rules. So what cells may still
// take down, and what is down already, are together no more than the global amount.
//
// A cell with neither Unavailable nor Surge is waiting: its order says "paused", because 0/0 is not a valid strategy
// and because a paused workload still heals and scales.
//
// # What goes wrong without each rule
//
// A model of the protocol, with a hub, members, and a network that loses, delays, doubles and reorders, is explored in
// every state (TestEveryState, 553 331 states of seven small rollouts): no limit is ever exceeded, and the rollout
// ends. Without one of these rules it finds a story in which pods of all cells together are more than the user allows,
// or the rollout never ends (TestEveryRuleIsNeeded):
//
//	a grant is raised only by what nobody holds                        too many updated, too many down
//	reserved falls only on a report on the order                       too many updated, too many down
//	an older order is ignored                                          too many updated, too many down
//	the placement is written before the Works                          too many updated, too many down
//	a new template begins with no permission to update                 too many updated
//	a member without contact disrupts nothing                          too many down
//	the hub waits longer than the member                               too many down
//	a lost grant is lent again only when the lower order is written    too many down
//	a member that is back follows what is written before it goes on    too many down
//	a member that is back waits for the hub's answer                   too many down
//	what a lost member may have updated stays counted                  too many updated
//	a finished cell hands on                                           never done
//	cells that cannot go back keep their part first                    never done
//
// # Worked example
//
// Three cells of 4, global Updated 12, Unavailable 1, Surge 0. First call: Updated 4/4/4, Unavailable 1/0/0 (the hash
// of the key decides which cell is first), two cells waiting. The first cell reports 4 updated, 0 in use: Unavailable
// granted 0/0/0, reserved 1/0/0, since nothing is free before it confirms the smaller grant. It confirms: granted
// 0/1/0, reserved 0/1/0. And so on.
//
// While the second cell has updated 2, the user lowers Updated to 5. The first cell has no old revision any more and
// keeps its 4, so Updated is 4/1/0: the second cell brings one pod back with the Unavailable that it has, and the third
// updates none.
//
// # What the caller does
//
//   - It stores Granted, Reserved and, with every changed order, a higher Sequence; then it writes the orders. The
//     sequence rises whenever Granted, Waiting, replicas or the template of a cell changes. Reserved alone changes no
//     order.
//   - It passes the newest report of each cell that is about the current template, else nil.
//   - On a new template revision it sets Granted.Updated and Reserved.Updated to 0 in every cell (no pod runs it yet,
//     and the order that brings it also brings the new Updated grant) and Report to nil until a report carries at least
//     the sequence of the first order with that template. Granted and Reserved of Unavailable and Surge stay: pods of
//     the last rollout may still be down.
//   - A cell that lost its replicas stays in the list with Replicas 0 until its Reserved is all 0, or its objects are
//     gone.
//   - A member that is out of contact keeps what it holds. It disrupts nothing once it was without contact for the time
//     of a lease, by its own clock; the caller waits twice that, by its own clock, from the last renewal that it saw,
//     and says Lost. It says Told once it has seen the order with Granted where members read it. It takes Lost back
//     before it answers the member's session, and a member disrupts nothing after a lost lease before its session is
//     answered and it follows the orders that were written by then. So no grant is in force twice. Pods that it took
//     down before may still be down, as pods that fail by themselves may be: they are charged to their cell, and nobody
//     else waits for them.
//   - While the user's workload is paused, the caller pauses all orders and lends as ever.
package lending
