//go:build e2e

package gitops_test

import "fmt"

const namespace = `
apiVersion: v1
kind: Namespace
metadata: {name: ` + ns + `, labels: {topology.flotilla.dev/federated: "true"}}
`

// policy holds for workloads with the label where=<where>.
func policy(name, clusters, where string) string {
	return fmt.Sprintf(`
apiVersion: topology.flotilla.dev/v1alpha1
kind: FederationPolicy
metadata: {name: %s, namespace: %s}
spec:
  workloads:
  - {kind: CloneSet, selector: {matchLabels: {where: %[4]s}}}
  - {kind: UnitedDeployment, selector: {matchLabels: {where: %[4]s}}}
  clusters: {names: [%[3]s]}
`, name, ns, clusters, where)
}

func cloneSet(name, where, neverReady string) string {
	return fmt.Sprintf(`
apiVersion: apps.kruise.io/v1beta1
kind: CloneSet
metadata: {name: %[1]s, namespace: %[2]s, labels: {where: %[3]s}}
spec:
  replicas: 6
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s, %[5]s: "%[4]s"}}
    spec:
      containers: [{name: main, image: "main:1"}]
  updateStrategy:
    type: RollingUpdate
    rollingUpdate: {maxUnavailable: 2}
`, name, ns, where, neverReady, stuck)
}

func unitedDeployment(name, where, neverReady string) string {
	return fmt.Sprintf(`
apiVersion: apps.kruise.io/v1beta1
kind: UnitedDeployment
metadata: {name: %[1]s, namespace: %[2]s, labels: {where: %[3]s}}
spec:
  replicas: 6
  selector: {matchLabels: {app: %[1]s}}
  template:
    cloneSetTemplate:
      metadata: {labels: {app: %[1]s}}
      spec:
        template:
          metadata: {labels: {app: %[1]s, %[5]s: "%[4]s"}}
          spec:
            containers: [{name: main, image: "main:1"}]
        updateStrategy: {rollingUpdate: {maxUnavailable: 2}}
  topology:
    subsets: [{name: all}]
`, name, ns, where, neverReady, stuck)
}
