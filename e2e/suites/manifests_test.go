//go:build e2e

package suites_test

import (
	"fmt"
	"strings"

	. "github.com/onsi/gomega"

	"github.com/flotilla-dev/flotilla/e2e/samples"
)

// Images of the samples, and a newer one of each.
const (
	webImage, newWebImage = "nginx:1.27", "nginx:1.28"
	apiImage, newAPIImage = "httpd:2.4.62", "httpd:2.4.63"
)

// sample returns a manifest of e2e/samples for another namespace.
func sample(file, namespace string) string {
	data, err := samples.FS.ReadFile(file)
	ExpectWithOffset(1, err).NotTo(HaveOccurred())
	return strings.ReplaceAll(string(data), "namespace: shop", "namespace: "+namespace)
}

// web is the UnitedDeployment of the samples, api the CloneSet.
func webSample(namespace string) string { return sample("3-web.yaml", namespace) }
func apiSample(namespace string) string { return sample("4-api.yaml", namespace) }

// policy selects all workloads of the kinds, on the three members of the fleet.
func policy(namespace, name string, kinds ...string) string {
	return policyOn(namespace, name, "east, south, west", kinds...)
}

func policyOn(namespace, name, clusters string, kinds ...string) string {
	entries := ""
	for _, kind := range kinds {
		entries += fmt.Sprintf("\n  - kind: %s", kind)
	}
	return fmt.Sprintf(`
apiVersion: topology.flotilla.dev/v1alpha1
kind: FederationPolicy
metadata: {name: %s, namespace: %s}
spec:
  workloads:%s
  clusters: {names: [%s]}
`, name, namespace, entries, clusters)
}

// cloneSet is a small CloneSet; strategy is the inside of updateStrategy.rollingUpdate.
func cloneSet(namespace, name string, replicas int, image, strategy string) string {
	return fmt.Sprintf(`
apiVersion: apps.kruise.io/v1beta1
kind: CloneSet
metadata: {name: %[2]s, namespace: %[1]s}
spec:
  replicas: %[3]d
  selector: {matchLabels: {app: %[2]s}}
  template:
    metadata: {labels: {app: %[2]s}}
    spec:
      containers: [{name: main, image: "%[4]s"}]
  updateStrategy:
    type: RollingUpdate
    rollingUpdate: {podUpdatePolicy: InPlaceIfPossible%[5]s}
`, namespace, name, replicas, image, prefixed(strategy))
}

func prefixed(text string) string {
	if text == "" {
		return ""
	}
	return ", " + text
}

// subset is one entry of a UnitedDeployment's topology; replicas is "replicas: 3", "minReplicas: 2" and the like, or
// empty.
func subset(name, zone, replicas string) string {
	in := fmt.Sprintf(`{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [%s]}]}`, zone)
	return fmt.Sprintf(`{name: %s, nodeSelectorTerm: %s%s}`, name, in, prefixed(replicas))
}

// unitedDeployment is a small UnitedDeployment of CloneSets.
func unitedDeployment(namespace, name string, replicas int, subsets ...string) string {
	return fmt.Sprintf(`
apiVersion: apps.kruise.io/v1beta1
kind: UnitedDeployment
metadata: {name: %[2]s, namespace: %[1]s}
spec:
  replicas: %[3]d
  selector: {matchLabels: {app: %[2]s}}
  template:
    cloneSetTemplate:
      metadata: {labels: {app: %[2]s}}
      spec:
        template:
          metadata: {labels: {app: %[2]s}}
          spec:
            containers: [{name: main, image: "web:1"}]
        updateStrategy: {rollingUpdate: {podUpdatePolicy: InPlaceIfPossible}}
  topology:
    subsets:
    - %[4]s
`, namespace, name, replicas, strings.Join(subsets, "\n    - "))
}
