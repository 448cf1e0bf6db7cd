// The CustomResourceDefinitions of Cluster API, for make capi. Nothing of this module is compiled: the types that programs use are those of
// sigs.k8s.io/cluster-api/api, in the main module.
module github.com/flotilla-dev/flotilla/e2e/tools/capi

go 1.26.0

require sigs.k8s.io/cluster-api v1.14.2
