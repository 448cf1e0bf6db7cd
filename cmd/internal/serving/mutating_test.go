package serving

import (
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// TestMutatingConfigurationIsKept: it is created, set right after a change of others, and else not written.
func TestMutatingConfigurationIsKept(t *testing.T) {
	core := fake.NewClientset()
	url := "https://127.0.0.1:9443/here"
	d := &definitions{core: core, program: "flotilla-agent",
		webhookClient: func(string) (admissionregistrationv1.WebhookClientConfig, error) {
			return admissionregistrationv1.WebhookClientConfig{URL: &url}, nil
		},
		mutating: []Mutating{{Name: "ours", Path: "/here", Webhook: admissionregistrationv1.MutatingWebhook{Name: "a.b.c"}}},
	}
	writes := func() (n int) {
		for _, action := range core.Actions() {
			if verb := action.GetVerb(); verb != "get" {
				n++
			}
		}
		return n
	}
	keep := func(want int) {
		t.Helper()
		if errs := d.setAll(t.Context()); len(errs) > 0 {
			t.Fatal(errs)
		}
		if got := writes(); got != want {
			t.Errorf("%d writes, want %d", got, want)
		}
	}
	keep(1)
	keep(1)
	api := core.AdmissionregistrationV1().MutatingWebhookConfigurations()
	live, err := api.Get(t.Context(), "ours", metav1.GetOptions{})
	if err != nil || *live.Webhooks[0].ClientConfig.URL != url {
		t.Fatalf("%+v (%v)", live, err)
	}
	url = "https://127.0.0.1:9443/there"
	keep(2)
}
