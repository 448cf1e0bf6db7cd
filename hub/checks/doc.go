// Package checks looks at what the checks of waves ask: expressions in CEL, and addresses by HTTP. What follows from it
// is decided in topology/waves. Jobs of checks go the way of all that is in members.
//
// Who may write a policy can have the hub ask addresses that only the hub's network reaches. So a question carries no
// credentials, no redirect is followed, what is answered is never shown, and the hub's own machine, its link and the
// addresses at which clouds give credentials are refused: when a connection is made, by the address that it is made to,
// whatever name stood for it.
package checks
