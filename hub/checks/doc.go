// Package checks looks at what the checks of waves ask: expressions in CEL, and addresses by HTTP. What follows from it
// is decided in topology/waves. Jobs of checks go the way of all that is in members.
//
// Who may write a policy can have the hub ask addresses that only the hub's network reaches. Package endpoint says what
// it refuses; what is answered is never shown.
package checks
