//go:build e2e

package suites_test

import (
	"context"
	"encoding/json"

	. "github.com/onsi/gomega"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/flotilla-dev/flotilla/member-agent/link/credential"
)

// certificateRequest is what somebody with a key of their own asks with.
func certificateRequest(member string, uid types.UID) []byte {
	key, err := credential.NewKey()
	Expect(err).NotTo(HaveOccurred())
	request, err := credential.NewRequest(key, member, uid)
	Expect(err).NotTo(HaveOccurred())
	return request
}

// applyAs applies a request as an agent does.
func applyAs(ctx context.Context, as kubernetes.Interface, csr *certificatesv1.CertificateSigningRequest) error {
	data, err := json.Marshal(csr)
	if err != nil {
		return err
	}
	_, err = as.CertificatesV1().CertificateSigningRequests().Patch(ctx, csr.Name, types.ApplyPatchType, data,
		metav1.PatchOptions{FieldManager: "thief", Force: new(true)})
	return err
}
