package serving

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	informers "k8s.io/apiextensions-apiserver/pkg/client/informers/externalversions/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	webhooks "k8s.io/client-go/informers/admissionregistration/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"github.com/flotilla-dev/flotilla/apis/crds"
)

// AnnotationConverter is on a CustomResourceDefinition: the program whose server converts its objects. Where a hub and
// an agent both serve in one cluster, the agent does: the hub leaves alone what names the agent.
const AnnotationConverter = "topology.flotilla.dev/converter"

// definitions keeps spec.conversion.webhook.clientConfig of our CustomResourceDefinitions, and the configurations of the
// validating webhooks. One replica does, the leader.
type definitions struct {
	client apiextensions.Interface
	core   kubernetes.Interface
	names  []string
	// program is the name of this one; what names yieldTo is left alone.
	program, yieldTo string
	// config fails until there is something to write.
	config func() (apiextensionsv1.WebhookClientConfig, error)
	// validating and mutating are the webhooks; webhookClient is what config is, for one of them by its path.
	validating    []Validating
	mutating      []Mutating
	webhookClient func(path string) (admissionregistrationv1.WebhookClientConfig, error)
	bell          bell
	clock         clock.WithTicker
	log           logr.Logger
}

// convertedNames returns the names of our CustomResourceDefinitions that have a conversion webhook.
func convertedNames() ([]string, error) {
	all, err := crds.All()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, crd := range all {
		strategy, _, _ := unstructured.NestedString(crd.Object, "spec", "conversion", "strategy")
		if strategy == string(apiextensionsv1.WebhookConverter) {
			names = append(names, crd.GetName())
		}
	}
	return names, nil
}

// Start works until the context ends. The manager calls it on the leader.
func (d *definitions) Start(ctx context.Context) error {
	var watching sync.WaitGroup
	defer watching.Wait()
	for _, name := range d.names {
		// A watch for each: a cluster may have hundreds of others, of megabytes each.
		informer := informers.NewFilteredCustomResourceDefinitionInformer(d.client, 0, nil, func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
		})
		watching.Go(func() { d.bell.watch(ctx, informer) })
	}
	for _, v := range d.validating {
		informer := webhooks.NewFilteredValidatingWebhookConfigurationInformer(d.core, 0, nil, func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, v.Name).String()
		})
		watching.Go(func() { d.bell.watch(ctx, informer) })
	}
	told := ""
	for {
		began, again := d.clock.Now(), lookAgain
		err := d.look(ctx)
		if err != nil {
			again = retry
			if ctx.Err() == nil && err.Error() != told {
				d.log.Error(
					err,
					"Cannot keep what API servers call; requests for other versions than v1beta1 may fail, and "+
						"templates and deletions may not be checked",
				)
			}
			told = err.Error()
		} else {
			told = ""
		}
		if !d.bell.wait(ctx, d.clock, began.Add(again)) {
			return nil
		}
	}
}

// look sets right what is not.
func (d *definitions) look(ctx context.Context) error {
	config, err := d.config()
	if err != nil {
		return nil // the bell rings when there is a certificate, and who keeps that says what is wrong
	}
	var errs []error
	for _, name := range d.names {
		if err := d.set(ctx, name, config); err != nil {
			errs = append(errs, fmt.Errorf("set the conversion webhook of CustomResourceDefinition %s: %w", name, err))
		}
	}
	return errors.Join(append(errs, d.setAll(ctx)...)...)
}

func (d *definitions) set(ctx context.Context, name string, config apiextensionsv1.WebhookClientConfig) error {
	api := d.client.ApiextensionsV1().CustomResourceDefinitions()
	crd, err := api.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil // it comes later, or never
	}
	if err != nil {
		return err
	}
	if !d.differs(crd, config) {
		return nil
	}
	patch, err := patchFor(d.program, config)
	if err != nil {
		return err
	}
	if _, err := api.Patch(ctx, name, types.MergePatchType, patch,
		metav1.PatchOptions{FieldManager: d.program}); err != nil {
		return err
	}
	d.log.Info("Wrote into the definitions where objects are converted", "crd", name, "at", address(config))
	return nil
}

// differs tells whether the definition is this program's to change, and does not say what config says.
func (d *definitions) differs(
	crd *apiextensionsv1.CustomResourceDefinition,
	config apiextensionsv1.WebhookClientConfig,
) bool {
	conversion := crd.Spec.Conversion
	if conversion == nil || conversion.Strategy != apiextensionsv1.WebhookConverter {
		return false
	}
	converter := crd.Annotations[AnnotationConverter]
	if d.yieldTo != "" && converter == d.yieldTo {
		return false
	}
	if converter != d.program || conversion.Webhook == nil || conversion.Webhook.ClientConfig == nil {
		return true
	}
	have := conversion.Webhook.ClientConfig
	return !bytes.Equal(have.CABundle, config.CABundle) || !equality.Semantic.DeepEqual(have.URL, config.URL) ||
		!equality.Semantic.DeepEqual(have.Service, config.Service)
}

// patchFor is a merge patch that sets the client configuration: what it has instead of URL or Service goes.
func patchFor(program string, config apiextensionsv1.WebhookClientConfig) ([]byte, error) {
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"annotations": map[string]string{AnnotationConverter: program}},
		"spec": map[string]any{"conversion": map[string]any{"webhook": map[string]any{"clientConfig": map[string]any{
			"url": config.URL, "service": config.Service, "caBundle": config.CABundle,
		}}}},
	})
}

func address(config apiextensionsv1.WebhookClientConfig) string {
	if config.URL != nil {
		return *config.URL
	}
	return "Service " + config.Service.Namespace + "/" + config.Service.Name
}
