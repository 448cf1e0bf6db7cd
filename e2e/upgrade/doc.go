// Package upgrade brings a hub and its members from an earlier version to this one, in the middle of a rollout (tag
// e2e): `make upgrade-test`.
package upgrade
