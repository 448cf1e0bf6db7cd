// Package suites holds the scenarios of Flotilla over whole fleets: real control planes, our programs as processes,
// plain kubectl. They are built with the tag e2e and run by `make e2e`; names of specs are the list of what is
// promised.
//
// One fleet serves all specs. A spec works in a namespace of its own; one that stops or kills something mends it.
package suites
