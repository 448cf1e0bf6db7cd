// Package adopt is the verb `flotilla adopt`: it brings a workload that runs in members already under the hub. It reads
// the members with the contexts of the user's kubeconfig, shows what would change in each, and writes the object on the
// hub; the hub and the agents do the rest.
package adopt
