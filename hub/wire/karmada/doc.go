// Package karmada is what Flotilla reads and writes of Karmada's own objects, by their wire format: Karmada's modules
// are not imported. The types have the group, kind and JSON names of Karmada's API, and of its fields those that are
// used.
package karmada
