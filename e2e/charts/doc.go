// Package charts tests the charts of this repository with helm (make charts): they are linted, what they render is compared, and
// docs/install.md is followed from install to uninstall.
package charts
