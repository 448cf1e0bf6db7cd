package serving

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/flotilla-dev/flotilla/apis/crds"
	hub "github.com/flotilla-dev/flotilla/hub/rights"
	member "github.com/flotilla-dev/flotilla/member-agent/rights"
)

const cloneSets = "clonesets.apps.kruise.io"

// definition is a CustomResourceDefinition as it is published: it names the agent's Service, and no bundle.
func definition(name string) *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{Conversion: &apiextensionsv1.CustomResourceConversion{
			Strategy: apiextensionsv1.WebhookConverter,
			Webhook: &apiextensionsv1.WebhookConversion{
				ConversionReviewVersions: []string{"v1"},
				ClientConfig: &apiextensionsv1.WebhookClientConfig{Service: &apiextensionsv1.ServiceReference{
					Namespace: namespace, Name: "flotilla-agent", Path: new(crds.ConversionPath), Port: new(servicePort),
				}},
			},
		}},
	}
}

// lead runs the leader's part of a replica until the test ends.
func (w *world) lead(r *replica) {
	ctx, cancel := context.WithCancel(w.t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = r.definitions.Start(ctx) })
	w.t.Cleanup(func() { cancel(); running.Wait() })
}

func (w *world) crd(name string) *apiextensionsv1.CustomResourceDefinition {
	w.t.Helper()
	crd, err := w.extensions.ApiextensionsV1().CustomResourceDefinitions().Get(w.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return crd
}

func (w *world) store(crd *apiextensionsv1.CustomResourceDefinition) {
	w.t.Helper()
	api := w.extensions.ApiextensionsV1().CustomResourceDefinitions()
	_, err := api.Update(w.t.Context(), crd, metav1.UpdateOptions{})
	if err != nil {
		_, err = api.Create(w.t.Context(), crd, metav1.CreateOptions{})
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// names tells whether the definition names the replica and what it wants to be trusted.
func (w *world) names(name string, r *replica) error {
	config, err := r.ClientConfig(crds.ConversionPath)
	if err != nil {
		return err
	}
	crd := w.crd(name)
	if r.definitions.differs(crd, forConversion(config)) {
		return fmt.Errorf("it says %+v", crd.Spec.Conversion.Webhook)
	}
	return nil
}

// TestDefinitions holds that the definitions name the server, also after somebody applied them again, after the Secret
// was deleted and where they come late; and that nothing is written otherwise.
func TestDefinitions(t *testing.T) {
	for form, url := range map[string]string{"Service": "", "URL": "https://127.0.0.1:9443"} {
		t.Run(form, func(t *testing.T) {
			w := newWorld(t)
			r := w.start(func(o *Options) { o.URL = url })
			r.definitions.names = []string{cloneSets, "uniteddeployments.apps.kruise.io"}
			w.lead(r)
			w.eventually("ready", func() error { return r.ready(nil) })
			right := func(when string) {
				t.Helper()
				w.eventually(when, func() error { return w.names(cloneSets, r) })
			}
			w.store(definition(cloneSets))
			right("definitions that come late")
			if crd := w.crd(cloneSets); len(crd.Spec.Conversion.Webhook.ConversionReviewVersions) != 1 {
				t.Error("the rest of the conversion is lost")
			}

			w.store(definition(cloneSets))
			right("applied again")

			if err := w.core.CoreV1().Secrets(namespace).Delete(t.Context(), "flotilla-agent-webhook",
				metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			old := w.crd(cloneSets).Spec.Conversion.Webhook.ClientConfig.CABundle
			w.eventually("after the Secret was deleted", func() error {
				if string(w.crd(cloneSets).Spec.Conversion.Webhook.ClientConfig.CABundle) == string(old) {
					return errors.New("the old bundle is there")
				}
				return w.names(cloneSets, r)
			})

			// Another look, for whatever reason, writes nothing.
			w.extensions.ClearActions()
			if err := r.definitions.look(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, action := range w.extensions.Actions() {
				if action.GetVerb() == "patch" {
					t.Errorf("at rest it writes %v", action)
				}
			}
		})
	}
}

// TestDefinitionsOfOthers holds that one without a conversion webhook is left alone, and one of nobody that is asked
// for.
func TestDefinitionsOfOthers(t *testing.T) {
	w := newWorld(t)
	r := w.start()
	w.served(r)
	r.definitions.names = []string{cloneSets}
	none := definition(cloneSets)
	none.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter}
	w.store(none)
	w.store(definition("jobs.example.org"))
	if err := r.definitions.look(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := w.crd(cloneSets).Spec.Conversion; got.Webhook != nil {
		t.Errorf("it got a webhook: %+v", got)
	}
	if got := w.crd("jobs.example.org").Spec.Conversion.Webhook.ClientConfig.CABundle; got != nil {
		t.Error("it touched a definition that is not ours")
	}
}

// TestHubAndAgent holds that where both serve one cluster, the agent is named, whoever came first, and that they do not
// write against each other.
func TestHubAndAgent(t *testing.T) {
	w := newWorld(t)
	w.store(definition(cloneSets))
	hub := w.start(func(o *Options) { o.Program, o.YieldTo = "flotilla-hub", "flotilla-agent" })
	hub.definitions.names = []string{cloneSets}
	w.lead(hub)
	w.eventually("the hub alone", func() error { return w.names(cloneSets, hub) })
	agent := w.start()
	agent.definitions.names = []string{cloneSets}
	w.lead(agent)
	w.eventually("the agent", func() error { return w.names(cloneSets, agent) })
	again := definition(cloneSets)
	again.Annotations = w.crd(cloneSets).Annotations // who applies leaves annotations of others
	w.store(again)
	w.eventually("applied again", func() error { return w.names(cloneSets, agent) })
	if err := hub.definitions.look(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.names(cloneSets, agent); err != nil {
		t.Errorf("the hub took it: %v", err)
	}
}

// TestOurDefinitions holds which of the embedded definitions are cared for.
func TestOurDefinitions(t *testing.T) {
	w := newWorld(t)
	s, err := newServer(w.core, w.extensions, Options{Flags: Flags{BindAddress: ":9443"}, Program: "flotilla-agent",
		Namespace: namespace, Clock: w.clock, Log: logr.Discard()})
	if err != nil {
		t.Fatal(err)
	}
	want := "[advancedcronjobs.apps.kruise.io clonesets.apps.kruise.io " +
		"containerrecreaterequests.apps.kruise.io daemonsets.apps.kruise.io persistentpodstates.apps.kruise.io " +
		"resourcedistributions.apps.kruise.io sidecarsets.apps.kruise.io " +
		"statefulsets.apps.kruise.io uniteddeployments.apps.kruise.io workloadspreads.apps.kruise.io " +
		"podunavailablebudgets.policy.kruise.io]"
	if got := fmt.Sprint(s.definitions.names); got != want {
		t.Errorf("cared for are %s, want %s", got, want)
	}
}

// TestDefinitionsMayBeChanged holds that both programs have the right to change each definition that they care for.
func TestDefinitionsMayBeChanged(t *testing.T) {
	names, err := convertedNames()
	if err != nil {
		t.Fatal(err)
	}
	for program, rules := range map[string][]rbacv1.PolicyRule{"hub": hub.Rules(), "agent": member.OwnRules()} {
		for _, name := range names {
			may := sets.New[string]()
			for _, rule := range rules {
				if slices.Contains(rule.Resources, "customresourcedefinitions") &&
					(len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, name)) {
					may.Insert(rule.Verbs...)
				}
			}
			if !may.HasAll("get", "list", "watch", "patch") {
				t.Errorf("of definition %s the %s has the rights %v", name, program, sets.List(may))
			}
		}
	}
}
