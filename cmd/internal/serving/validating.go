package serving

import (
	"context"
	"fmt"
	"net/http"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/flotilla-dev/flotilla/member-agent/admission/deletion"
)

// Validating is a ValidatingWebhookConfiguration of one webhook that the server serves and keeps.
type Validating struct {
	// Name is the name of the configuration, Path where the handler is served.
	Name, Path string
	Handler    admission.Handler
	// Webhook has all defaults of the API server filled in; the server adds the client.
	Webhook admissionregistrationv1.ValidatingWebhook
	// Off: the configuration is removed, and nothing is served.
	Off bool
}

// Deletions returns the guard of deletions as a configuration of this name, for the API server of config. contents keep
// a namespace.
func (f *Flags) Deletions(config *rest.Config, name string, contents []deletion.Content) (Validating, error) {
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return Validating{}, fmt.Errorf("set up the guard of deletions: %w", err)
	}
	return Validating{
		Name: name, Path: deletion.Path, Handler: admission.HandlerFunc(deletion.New(client, contents).Handle),
		Webhook: deletion.Webhook(), Off: !f.DeletionProtection,
	}, nil
}

// validateTemplates is what each program validates.
func validateTemplates() Validating {
	return Validating{
		Name: TemplatesConfiguration, Path: TemplatesPath, Handler: admission.HandlerFunc(handleTemplates),
		Webhook: templates(),
	}
}

func (v *Validating) handler() http.Handler { return &webhook.Admission{Handler: v.Handler} }

// setValidating keeps one configuration. Selectors that others added stay.
func (d *definitions) setValidating(ctx context.Context, v *Validating) error {
	client, err := d.webhookClient(v.Path)
	if err != nil {
		return nil // the bell rings when there is a certificate
	}
	api := d.core.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	webhook := *v.Webhook.DeepCopy()
	webhook.ClientConfig = client
	live, err := api.Get(ctx, v.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		if v.Off {
			return nil
		}
		_, err = api.Create(ctx, &admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: v.Name, Annotations: map[string]string{AnnotationConverter: d.program}},
			Webhooks:   []admissionregistrationv1.ValidatingWebhook{webhook},
		}, metav1.CreateOptions{FieldManager: d.program})
		return err
	}
	if err != nil {
		return err
	}
	server := live.Annotations[AnnotationConverter]
	if v.Off {
		if server != d.program {
			return nil
		}
		return api.Delete(ctx, v.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(live.UID))})
	}
	if d.yieldTo != "" && server == d.yieldTo {
		return nil
	}
	if len(live.Webhooks) == 1 {
		webhook.NamespaceSelector = live.Webhooks[0].NamespaceSelector
		webhook.ObjectSelector = live.Webhooks[0].ObjectSelector
	}
	if server == d.program && len(live.Webhooks) == 1 && equality.Semantic.DeepEqual(live.Webhooks[0], webhook) {
		return nil
	}
	live = live.DeepCopy()
	metav1.SetMetaDataAnnotation(&live.ObjectMeta, AnnotationConverter, d.program)
	live.Webhooks = []admissionregistrationv1.ValidatingWebhook{webhook}
	_, err = api.Update(ctx, live, metav1.UpdateOptions{FieldManager: d.program})
	return err
}

// setAll keeps all configurations, and returns an error for each that it cannot keep.
func (d *definitions) setAll(ctx context.Context) (errs []error) {
	for i := range d.validating {
		if err := d.setValidating(ctx, &d.validating[i]); err != nil {
			errs = append(errs, fmt.Errorf("set ValidatingWebhookConfiguration %s: %w", d.validating[i].Name, err))
		}
	}
	for i := range d.mutating {
		if err := d.setMutating(ctx, &d.mutating[i]); err != nil {
			errs = append(errs, fmt.Errorf("set MutatingWebhookConfiguration %s: %w", d.mutating[i].Name, err))
		}
	}
	return errs
}
