package capi

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const (
	// kubeconfigKey is the key in the Secret of a kubeconfig, as Cluster API's contract has it.
	kubeconfigKey = "value"
	// answerWithin ends a request to a cluster that hangs, since the next cluster waits for the worker; a busy API server
	// takes seconds for a CustomResourceDefinition.
	answerWithin = 30 * time.Second
)

// secretOf is the name of the Secret with a cluster's kubeconfig.
func secretOf(cluster string) string { return cluster + "-kubeconfig" }

// configOf returns how a cluster is reached by a kubeconfig. It runs no program and reads no file that the kubeconfig
// names: who may write Secrets is not to act as this program.
func configOf(data []byte) (*rest.Config, error) {
	if len(data) == 0 {
		return nil, fmt.Errorf("it has nothing under the key %q: put the kubeconfig there", kubeconfigKey)
	}
	parsed, err := clientcmd.Load(data)
	if err != nil {
		return nil, fmt.Errorf("it is no kubeconfig: %w", err)
	}
	if err := harmless(parsed); err != nil {
		return nil, err
	}
	cfg, err := clientcmd.NewDefaultClientConfig(*parsed, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("it says of no cluster how to reach it: %w", err)
	}
	cfg.Timeout, cfg.QPS = answerWithin, -1 // a dozen requests in ten minutes; the API server limits
	return cfg, nil
}

// harmless says what in a kubeconfig would run a program or read a file here.
func harmless(c *clientcmdapi.Config) error {
	const instead = "put a token or a certificate into it"
	for name, user := range c.AuthInfos {
		switch {
		case user.Exec != nil:
			return fmt.Errorf(
				"its user %q is authenticated by the program %q, which is not run here: %s",
				name,
				user.Exec.Command,
				instead,
			)
		case user.AuthProvider != nil:
			return fmt.Errorf(
				"its user %q is authenticated by the plugin %q, which is not run here: %s",
				name,
				user.AuthProvider.Name,
				instead,
			)
		case user.TokenFile != "" || user.ClientCertificate != "" || user.ClientKey != "":
			return fmt.Errorf("its user %q is authenticated by a file, which is not read here: %s", name, instead)
		}
	}
	for name, cluster := range c.Clusters {
		if cluster.CertificateAuthority != "" {
			return fmt.Errorf(
				"the authority of its cluster %q is a file, which is not read here: put certificate-authority-data into it",
				name,
			)
		}
	}
	if len(c.Clusters) == 0 {
		return errors.New("it names no cluster: put the cluster's own kubeconfig there")
	}
	return nil
}
