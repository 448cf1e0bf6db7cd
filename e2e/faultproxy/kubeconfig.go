package faultproxy

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
)

// Open makes the kubeconfig at path lead through a proxy to the API server that it named before.
func Open(ctx context.Context, name, path string, options Options) (*Proxy, error) {
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig for %s: %w", name, err)
	}
	direct, err := clientcmd.NewDefaultClientConfig(*config, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig for %s: %w", name, err)
	}
	p, err := New(ctx, name, direct, options)
	if err != nil {
		return nil, err
	}
	cluster := config.Clusters[config.Contexts[config.CurrentContext].Cluster]
	cluster.Server, cluster.CertificateAuthorityData = p.URL(), nil
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return nil, errors.Join(fmt.Errorf("write the kubeconfig for %s: %w", name, err), p.Close())
	}
	return p, nil
}
