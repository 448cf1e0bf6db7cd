// Package profiles publishes each member as a ClusterProfile of SIG Multicluster's inventory API
// (multicluster.x-k8s.io), for programs that look for clusters there. Nothing in Flotilla reads them. The types have
// the group, kind and JSON names of that API, and of its fields those that are written: its module is not imported.
//
// A profile stands while its member exists and spec.accepted is true. One of the same name that another manager made is
// left alone.
package profiles
