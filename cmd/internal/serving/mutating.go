package serving

import (
	"context"
	"net/http"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// Mutating is a MutatingWebhookConfiguration of one webhook that the server serves and keeps.
type Mutating struct {
	// Name is the name of the configuration, Path where the handler is served.
	Name, Path string
	Handler    admission.Handler
	// Webhook has all defaults of the API server filled in; the server adds the client.
	Webhook admissionregistrationv1.MutatingWebhook
}

func (m *Mutating) handler() http.Handler { return &webhook.Admission{Handler: m.Handler} }

// setMutating keeps one configuration. Selectors that others added stay.
func (d *definitions) setMutating(ctx context.Context, m *Mutating) error {
	client, err := d.webhookClient(m.Path)
	if err != nil {
		return nil // the bell rings when there is a certificate
	}
	api := d.core.AdmissionregistrationV1().MutatingWebhookConfigurations()
	webhook := *m.Webhook.DeepCopy()
	webhook.ClientConfig = client
	live, err := api.Get(ctx, m.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = api.Create(ctx, &admissionregistrationv1.MutatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: m.Name, Annotations: map[string]string{AnnotationConverter: d.program}},
			Webhooks:   []admissionregistrationv1.MutatingWebhook{webhook},
		}, metav1.CreateOptions{FieldManager: d.program})
		return err
	}
	if err != nil {
		return err
	}
	if len(live.Webhooks) == 1 {
		webhook.NamespaceSelector = live.Webhooks[0].NamespaceSelector
		webhook.ObjectSelector = live.Webhooks[0].ObjectSelector
		if equality.Semantic.DeepEqual(live.Webhooks[0], webhook) {
			return nil
		}
	}
	live = live.DeepCopy()
	metav1.SetMetaDataAnnotation(&live.ObjectMeta, AnnotationConverter, d.program)
	live.Webhooks = []admissionregistrationv1.MutatingWebhook{webhook}
	_, err = api.Update(ctx, live, metav1.UpdateOptions{FieldManager: d.program})
	return err
}
