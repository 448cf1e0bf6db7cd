package serving

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	hub "github.com/flotilla-dev/flotilla/hub/rights"
	agent "github.com/flotilla-dev/flotilla/member-agent/rights"
)

func TestTemplatesAreRefusedWithPathAndValue(t *testing.T) {
	ask := func(spec string) admission.Response {
		return handleTemplates(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
			Kind:   metav1.GroupVersionKind{Group: "apps.kruise.io", Version: "v1beta1", Kind: "CloneSet"},
			Object: runtime.RawExtension{Raw: []byte(`{"spec":{"template":{"spec":` + spec + `}}}`)},
		}})
	}
	if r := ask(`{"containers":[{"name":"a"}]}`); !r.Allowed || len(r.Warnings) > 0 {
		t.Errorf("a good template: %+v", r)
	}
	r := ask(`{"containers":[{"name":"a","env":[{"name":"A","value":5}]}],"nodename":"n"}`)
	want := "spec.template.spec.containers[0].env[0].value: Invalid value: 5: must be of type string; correct the values"
	if r.Allowed || r.Result.Message != want || r.Result.Reason != metav1.StatusReasonInvalid {
		t.Errorf("got %+v, want %s", r, want)
	}
	if len(r.Warnings) != 1 || !strings.HasPrefix(r.Warnings[0], `unknown field "spec.template.spec.nodename"`) {
		t.Errorf("warnings %q", r.Warnings)
	}
}

func (w *world) configuration() *admissionregistrationv1.ValidatingWebhookConfiguration {
	w.t.Helper()
	api := w.core.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	c, err := api.Get(w.t.Context(), TemplatesConfiguration, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		w.t.Fatal(err)
	}
	return c
}

// asks reports whether the webhook for templates is at the replica.
func (w *world) asks(r *replica) error {
	client, err := r.ClientConfig(TemplatesPath)
	if err != nil {
		return err
	}
	c := w.configuration()
	if len(c.Webhooks) != 1 || !equality.Semantic.DeepEqual(c.Webhooks[0].ClientConfig, client) ||
		*c.Webhooks[0].FailurePolicy != admissionregistrationv1.Ignore {
		return fmt.Errorf("it says %+v", c.Webhooks)
	}
	return nil
}

func TestTheWebhookForTemplatesIsKept(t *testing.T) {
	w := newWorld(t)
	hub := w.start(func(o *Options) { o.Program, o.YieldTo = "flotilla-hub", "flotilla-agent" })
	hub.definitions.names = nil
	w.lead(hub)
	w.eventually("the hub alone", func() error { return w.asks(hub) })

	api := w.core.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	changed := w.configuration().DeepCopy()
	others := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: "control-plane", Operator: metav1.LabelSelectorOpDoesNotExist},
	}}
	changed.Webhooks[0].NamespaceSelector, changed.Webhooks[0].FailurePolicy = others, new(admissionregistrationv1.Fail)
	if _, err := api.Update(t.Context(), changed, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("changed by others", func() error { return w.asks(hub) })
	if got := w.configuration().Webhooks[0].NamespaceSelector; !equality.Semantic.DeepEqual(got, others) {
		t.Errorf("the selector of others became %v", got)
	}
	if err := api.Delete(t.Context(), TemplatesConfiguration, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("deleted", func() error { return w.asks(hub) })

	agent := w.start()
	agent.definitions.names = nil
	w.lead(agent)
	w.eventually("the agent", func() error { return w.asks(agent) })
	w.core.ClearActions()
	for _, r := range []*replica{hub, agent} {
		if err := r.definitions.look(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, action := range w.core.Actions() {
		reads := slices.Contains([]string{"get", "list", "watch"}, action.GetVerb())
		if action.GetResource().Resource == "validatingwebhookconfigurations" && !reads {
			t.Errorf("at rest it writes %v", action)
		}
	}
	if err := w.asks(agent); err != nil {
		t.Errorf("the hub took it: %v", err)
	}
}

func TestProgramsMayWriteTheWebhookForTemplates(t *testing.T) {
	for program, rules := range map[string][]rbacv1.PolicyRule{"hub": hub.Rules(), "agent": agent.OwnRules()} {
		if !slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool {
			return slices.Equal(r.Resources, []string{"validatingwebhookconfigurations"}) &&
				slices.Contains(r.ResourceNames, TemplatesConfiguration) && slices.Contains(r.Verbs, "update")
		}) {
			t.Errorf("the %s may not update %s", program, TemplatesConfiguration)
		}
	}
}
