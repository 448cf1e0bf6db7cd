package podunavailablebudget

import (
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestIsCalled(t *testing.T) {
	names := func(names ...string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "control-plane", Operator: metav1.LabelSelectorOpDoesNotExist},
			{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: names},
		}}
	}
	for name, row := range map[string]struct {
		selector *metav1.LabelSelector
		want     bool
	}{
		"all namespaces":         {nil, true},
		"too many to be named":   {&metav1.LabelSelector{}, true},
		"it is named":            {names("db", "shop"), true},
		"others are named":       {names("db"), false},
		"namespaces by no names": {names(), false},
	} {
		w := admissionregistrationv1.ValidatingWebhook{NamespaceSelector: row.selector}
		if got := isCalled(w, "shop"); got != row.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
