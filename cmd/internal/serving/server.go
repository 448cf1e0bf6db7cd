package serving

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/flotilla-dev/flotilla/apis/crds"
	"github.com/flotilla-dev/flotilla/member-agent/expiry"
)

// servicePort is the port of the Service, the default of webhooks.
const servicePort int32 = 443

// Certificates live as long as the library's do by default.
const (
	authorityLife   = 10 * 365 * 24 * time.Hour
	certificateLife = 365 * 24 * time.Hour
)

// Options say what a server is made for.
type Options struct {
	Flags
	// Program is the name of the program, of its Service, of the field manager, and with "-webhook" of the Secret.
	Program string
	// YieldTo is the program to which this one leaves the conversion of what it has taken; "" for none.
	YieldTo string
	// Namespace holds the Secret and the Service; it must exist.
	Namespace string
	Clock     clock.WithTicker
	Log       logr.Logger
	// Validating are validating webhooks beside the one for templates.
	Validating []Validating
	// Mutating are mutating webhooks.
	Mutating []Mutating
	// AuthorityLife and CertificateLife are how long those are valid; 0 means ten years and one.
	AuthorityLife, CertificateLife time.Duration
}

// Server is the webhook server of a manager.
type Server struct {
	webhook.Server
	options      Options
	certificates *certificates
	definitions  *definitions
}

var _ webhook.Server = &Server{}

// New returns a server for the API server of config. Give it to the manager as its WebhookServer, then call Setup. The
// flags must be valid and On.
func New(config *rest.Config, o Options) (*Server, error) {
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("set up the webhook server: %w", err)
	}
	extensions, err := apiextensions.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("set up the webhook server: %w", err)
	}
	return newServer(core, extensions, o)
}

func newServer(core kubernetes.Interface, extensions apiextensions.Interface, o Options) (*Server, error) {
	host, port, err := o.listen()
	if err != nil {
		return nil, err
	}
	names, err := convertedNames()
	if err != nil {
		return nil, fmt.Errorf("set up the webhook server: %w", err)
	}
	if o.AuthorityLife == 0 {
		o.AuthorityLife = authorityLife
	}
	if o.CertificateLife == 0 {
		o.CertificateLife = certificateLife
	}
	s := &Server{options: o}
	s.certificates = &certificates{
		client: core, namespace: o.Namespace, name: o.Program + "-webhook", authority: o.Program + "-webhook",
		hosts: []string{o.host()}, life: life{o.AuthorityLife, o.CertificateLife}, clock: o.Clock, log: o.Log,
	}
	s.definitions = &definitions{
		client: extensions, core: core, names: names, program: o.Program, yieldTo: o.YieldTo, bell: newBell(), clock: o.Clock,
		log: o.Log,
		config: func() (apiextensionsv1.WebhookClientConfig, error) {
			c, err := s.ClientConfig(crds.ConversionPath)
			return forConversion(c), err
		},
		validating:    append([]Validating{validateTemplates()}, o.Validating...),
		mutating:      o.Mutating,
		webhookClient: s.ClientConfig,
	}
	s.OnChange(s.definitions.bell.ring)
	s.Server = webhook.NewServer(webhook.Options{Host: host, Port: port, TLSOpts: []func(*tls.Config){
		func(c *tls.Config) { c.GetCertificate = s.certificates.get },
	}})
	return s, nil
}

// Setup adds the server, its check and the care for what names the server to the manager that was made with it.
func (s *Server) Setup(mgr ctrl.Manager) error {
	handler, err := convertHandler()
	if err != nil {
		return fmt.Errorf("set up conversion: %w", err)
	}
	s.Register(crds.ConversionPath, handler)
	for i := range s.definitions.validating {
		if v := &s.definitions.validating[i]; !v.Off {
			s.Register(v.Path, v.handler())
		}
	}
	for i := range s.definitions.mutating {
		m := &s.definitions.mutating[i]
		s.Register(m.Path, m.handler())
	}
	if got := mgr.GetWebhookServer(); got != webhook.Server(s) { // this adds it
		return fmt.Errorf("set up the webhook server: the manager has another one, %T", got)
	}
	if err := mgr.AddReadyzCheck("webhook", s.ready); err != nil {
		return fmt.Errorf("add readiness check: %w", err)
	}
	if err := mgr.Add(expiry.New(metrics.Registry, "webhook", s.certificates.valid)); err != nil {
		return fmt.Errorf("add the metric of the certificate: %w", err)
	}
	if err := mgr.Add(s.definitions); err != nil {
		return fmt.Errorf("add the care for CustomResourceDefinitions: %w", err)
	}
	return nil
}

// Start serves until the context ends. The manager calls it, on every replica and before anything else.
func (s *Server) Start(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var keeping sync.WaitGroup
	keeping.Go(func() { s.certificates.run(ctx) })
	err := s.Server.Start(ctx)
	cancel()
	keeping.Wait()
	if err != nil {
		return fmt.Errorf("serve webhooks at --webhook-bind-address %s: %w", s.options.BindAddress, err)
	}
	return nil
}

// ready is nil when a TLS client is answered.
func (s *Server) ready(request *http.Request) error {
	if _, err := s.certificates.get(nil); err != nil {
		return err
	}
	return s.StartedChecker()(request)
}

// ClientConfig says how API servers reach the path on this server, and what to trust, as a webhook configuration has
// it. It fails until there is a certificate. An authority that takes the place of another is trusted beside it for
// settle before it signs.
func (s *Server) ClientConfig(path string) (admissionv1.WebhookClientConfig, error) {
	bundle, err := s.certificates.bundle()
	if err != nil {
		return admissionv1.WebhookClientConfig{}, err
	}
	config := admissionv1.WebhookClientConfig{CABundle: bundle}
	if s.options.URL != "" {
		config.URL = new(strings.TrimSuffix(s.options.URL, "/") + path)
	} else {
		config.Service = &admissionv1.ServiceReference{
			Namespace: s.options.Namespace, Name: s.options.Program, Path: &path, Port: new(servicePort),
		}
	}
	return config, nil
}

// OnChange has f called whenever ClientConfig is another one. f must not wait.
func (s *Server) OnChange(f func()) { s.certificates.onChange(f) }

// host is the name or address that the certificate must have: API servers call a Service by <name>.<namespace>.svc.
func (o *Options) host() string {
	if u, err := url.Parse(o.URL); err == nil && u.Hostname() != "" {
		return u.Hostname()
	}
	return o.Program + "." + o.Namespace + ".svc"
}

func forConversion(c admissionv1.WebhookClientConfig) apiextensionsv1.WebhookClientConfig {
	config := apiextensionsv1.WebhookClientConfig{URL: c.URL, CABundle: c.CABundle}
	if s := c.Service; s != nil {
		config.Service = &apiextensionsv1.ServiceReference{Namespace: s.Namespace, Name: s.Name, Path: s.Path, Port: s.Port}
	}
	return config
}
