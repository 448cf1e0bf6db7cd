package serving

import (
	"net/http"

	webhook "sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	"github.com/flotilla-dev/flotilla/apis/apps/conversion"
)

// convertHandler answers API servers that want objects of our kinds in another version.
func convertHandler() (http.Handler, error) {
	registry := webhook.NewRegistry()
	for _, kind := range conversion.Kinds() {
		if err := registry.RegisterConverter(kind, conversion.Converter{}); err != nil {
			return nil, err
		}
	}
	return webhook.NewWebhookHandler(conversion.Scheme(), registry), nil
}
