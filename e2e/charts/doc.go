// Package charts tests the charts of this repository with helm: they are linted, and what they render is compared.
package charts
