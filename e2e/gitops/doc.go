// Package gitops holds what GitOps tools read in our objects against what is so: kstatus (Flux, helm --wait) and Argo
// CD, with its own health checks and with ours of integrations/argocd, in every phase of a workload, on a hub and in a
// member. The table of docs/tasks/gitops.md is what is expected. `make gitops` runs it: it builds their code first, in
// e2e/tools/gitops.
package gitops
