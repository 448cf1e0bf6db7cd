package crds_test

import "testing"

const resourceDistribution = `
apiVersion: apps.kruise.io/v1beta1
kind: ResourceDistribution
metadata:
  name: pull
spec:
  resource:
    apiVersion: v1
    kind: Secret
    metadata:
      name: pull
    data:
      key: dmFsdWU=
  targets:
    includedNamespaces:
      list:
      - name: shop
`

func testResourceDistributionRules(t *testing.T, s *server) {
	const list = "spec.targets.includedNamespaces.list"
	s.check(t, resourceDistribution, []rule{
		{name: "as it is", edit: named("pull")},
		{name: "a ConfigMap", edit: set("spec.resource.kind", "ConfigMap")},
		{name: "all targets", edit: set("spec.targets",
			"{allNamespaces: true, namespaceSelector: {matchLabels: {a: b}}, excludedNamespaces: {list: [{name: a}]}}")},
		{name: "no targets", edit: set("spec.targets", "{}")},
		{name: "another kind", edit: set("spec.resource.kind", "Pod"),
			says: []string{"spec.resource", "resource is a Pod of v1", "only Secrets and ConfigMaps"}},
		{name: "another group", edit: set("spec.resource.apiVersion", "x/v1"),
			says: []string{"spec.resource", "resource is a Secret of x/v1"}},
		{name: "no kind", edit: remove("spec.resource.kind"), says: []string{"spec.resource.kind"}},
		{name: "no name", edit: remove("spec.resource.metadata.name"), says: []string{"spec.resource", "metadata.name"}},
		{name: "no resource", edit: remove("spec.resource"), says: []string{"spec.resource"}},
		{name: "the content changes", first: named("content"), edit: set("spec.resource.data.key", "eA==")},
		{name: "the kind changes", first: named("kind"), edit: set("spec.resource.kind", "ConfigMap"),
			says: []string{"spec.resource", "kind and name of resource cannot change", "make another"}},
		{name: "the name changes", first: named("name"), edit: set("spec.resource.metadata.name", "other"),
			says: []string{"spec.resource", "kind and name of resource cannot change"}},
		{name: "a name that no namespace has", edit: set(list, "[{name: A_b}]"),
			says: []string{list, "name A_b is no name of a namespace", "correct it"}},
		{name: "the same twice", edit: set(list, "[{name: a}, {name: a}]"), says: []string{list, "Duplicate value"}},
	})
}
