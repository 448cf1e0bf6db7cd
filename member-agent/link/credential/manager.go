package credential

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

const (
	// lookSoon is how often a request is looked at that may be answered at any moment, lookLater how often one that waits
	// for a person, and soonFor how long the one becomes the other.
	lookSoon  = 200 * time.Millisecond
	lookLater = 2 * time.Second
	soonFor   = time.Minute
	// refusedFor is how long a refusal stands before another request is made.
	refusedFor = 5 * time.Minute
	// keptFor is the least time between two certificates, whatever their life is.
	keptFor = 30 * time.Second
	// lookAtSecret is how often the Secret of flotilla join is looked at while there is nothing else to do: it may be a
	// new one.
	lookAtSecret = time.Minute
	// again is the pause after something that did not work, without its jitter.
	again       = 2 * time.Second
	againJitter = 0.5
	// adviseEvery is how often a person is told what to do.
	adviseEvery = 5 * time.Minute
	// requestTimeout ends one look: a hub that hangs is asked again.
	requestTimeout = 10 * time.Second
)

// Config says where things are.
type Config struct {
	// Member reads and writes Secrets of the member, without a cache.
	Member client.Client
	// Namespace of the member with the Secrets; JoinSecret is the name of the one that flotilla join wrote.
	Namespace, JoinSecret string
	// ClusterID is the identity of the member: the uid of namespace kube-system.
	ClusterID string
	// UserAgent is sent with every request.
	UserAgent string
	Clock     clock.WithTicker
	Log       logr.Logger
}

// Manager keeps the agent's certificate. It is a Runnable of the agent's manager.
type Manager struct {
	config    Config
	transport *Transport

	secret *corev1.Secret
	have   *certificate
	spread float64
	// told is the certificate or token that the transport has, for others than the goroutine of Start.
	told atomic.Pointer[certificate]
	// used is its serial number.
	used string

	kept    time.Time // when this process stored one last
	asked   time.Time // when the present request was made
	advice  string
	advised time.Time
}

// New returns a manager that has not read anything yet.
func New(config Config) *Manager {
	return &Manager{config: config, transport: NewTransport(), spread: rand.Float64()}
}

// RESTConfig returns how the hub is reached with the certificate; requests wait while there is none.
func (m *Manager) RESTConfig(join *Join) *rest.Config {
	return &rest.Config{Host: join.Server, Transport: m.transport, UserAgent: m.config.UserAgent, QPS: -1}
}

// Valid returns when the certificate that the hub is dialled with begins and ends, false before there is one.
func (m *Manager) Valid() (begin, end time.Time, ok bool) {
	told := m.told.Load()
	if told == nil {
		return time.Time{}, time.Time{}, false
	}
	return told.from, told.until, true
}

// Start keeps the certificate until ctx ends. It never returns earlier, whatever hub and member do.
func (m *Manager) Start(ctx context.Context) error {
	timer := m.config.Clock.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C():
		}
		next, err := m.look(ctx)
		if err != nil && ctx.Err() == nil {
			m.advise(err.Error())
			next = wait.Jitter(again, againJitter)
		}
		timer.Reset(next)
	}
}

// look does what is to be done now, and returns when to look again.
func (m *Manager) look(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	join, err := ReadJoin(ctx, m.config.Member, m.config.Namespace, m.config.JoinSecret)
	if err != nil {
		return 0, err
	}
	if err := m.load(ctx); err != nil {
		return 0, err
	}
	now := m.config.Clock.Now()
	s := plan(now, join, m.have, m.spread)
	if s.use {
		if err := m.use(join); err != nil {
			return 0, err
		}
	}
	switch {
	case s.ask == itself && now.Sub(m.kept) < keptFor:
		return keptFor - now.Sub(m.kept), nil
	case s.ask != nothing:
		return m.ask(ctx, join, s.ask)
	case s.advice != "":
		m.advise(s.advice)
		return lookLater, nil
	}
	m.advice, m.asked = "", time.Time{}
	return max(min(s.due.Sub(now), lookAtSecret), lookSoon), nil
}

// load reads the key and the certificate once; later this process is the one that writes them.
func (m *Manager) load(ctx context.Context) error {
	if m.secret != nil {
		return nil
	}
	secret, err := EnsureKey(ctx, m.config.Member, m.config.Namespace)
	if err != nil {
		return err
	}
	m.secret = secret
	if data := secret.Data[topology.CredentialCertificate]; len(data) > 0 {
		m.have, err = readCertificate(data, secret.Data[topology.CredentialKey])
	} else if data := secret.Data[topology.CredentialToken]; len(data) > 0 {
		m.have, err = readToken(data)
	}
	if err != nil {
		m.have = nil
		m.config.Log.Info("What the Secret has to show the hub is of no use; asking for another one", "err", err.Error())
	}
	return nil
}

// use gives the certificate to the transport, once.
func (m *Manager) use(join *Join) error {
	if m.used == m.have.serial {
		return nil
	}
	data := m.secret.Data
	var err error
	if m.have.token != "" {
		err = m.transport.UseToken(join.Server, join.CA, m.have.token)
	} else {
		err = m.transport.Use(join.Server, join.CA, data[topology.CredentialKey], data[topology.CredentialCertificate])
	}
	if err != nil {
		return err
	}
	m.used = m.have.serial
	m.told.Store(m.have)
	m.config.Log.Info(
		"The hub is dialled with this "+m.have.kind(),
		"user",
		m.have.user,
		"until",
		m.have.until.Format(time.RFC3339),
	)
	return nil
}

// keep stores a new certificate or token in the member in place of what it had, and uses it.
func (m *Manager) keep(ctx context.Context, join *Join, as string, data []byte, have *certificate) error {
	secret := m.secret.DeepCopy()
	delete(secret.Data, topology.CredentialCertificate)
	delete(secret.Data, topology.CredentialToken)
	secret.Data[as] = data
	if err := m.config.Member.Update(ctx, secret); err != nil {
		m.secret = nil // it may be another one now
		return fmt.Errorf("keep the %s in Secret %s/%s: %w", have.kind(), secret.Namespace, secret.Name, err)
	}
	m.secret, m.have, m.asked, m.kept = secret, have, time.Time{}, m.config.Clock.Now()
	return m.use(join)
}

// advise tells a person what to do: on each change, and from time to time.
func (m *Manager) advise(sentence string) {
	now := m.config.Clock.Now()
	if sentence == m.advice && now.Sub(m.advised) < adviseEvery {
		return
	}
	m.advice, m.advised = sentence, now
	m.config.Log.Info("This cluster needs a certificate of the hub; what runs here goes on", "because", sentence)
}
