package serving

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	informers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
)

const (
	// retry is the time to the next attempt after one failed: an API server that is away comes back within seconds.
	retry = 2 * time.Second
	// lookAgain is the longest time between two looks at the Secret, should a watch be silent or a clock have been set.
	lookAgain = time.Hour
	// rounds is how often a write that another replica was ahead of is decided anew at once. The other one's write is
	// there by then, so the second round finds nothing to do.
	rounds = 5
)

// certificates keeps the certificate of this replica as the Secret says, and the Secret as life says.
type certificates struct {
	client          kubernetes.Interface
	namespace, name string
	// authority is the name of authorities that are made.
	authority string
	hosts     []string
	life      life
	clock     clock.WithTicker
	log       logr.Logger

	mu      sync.Mutex
	keys    *keys
	trouble error
	changed []func()
}

// get returns the certificate for a TLS handshake, or why there is none.
func (c *certificates) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.keys == nil {
		return nil, c.missing()
	}
	return c.keys.served, nil
}

// valid returns when the certificate that is served begins and ends, false while there is none.
func (c *certificates) valid() (begin, end time.Time, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.keys == nil {
		return time.Time{}, time.Time{}, false
	}
	leaf := c.keys.served.Leaf
	return leaf.NotBefore, leaf.NotAfter, true
}

// bundle returns what is to be trusted, PEM, or why there is nothing.
func (c *certificates) bundle() ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.keys == nil {
		return nil, c.missing()
	}
	return bytes.Clone(c.keys.bundle), nil
}

// missing says why there is no certificate; mu is held.
func (c *certificates) missing() error {
	if c.trouble != nil {
		return fmt.Errorf("no certificate yet: %w", c.trouble)
	}
	return errors.New("no certificate yet")
}

// onChange has f called whenever the bundle is another one. f must not wait.
func (c *certificates) onChange(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changed = append(c.changed, f)
}

// run works until the context ends.
func (c *certificates) run(ctx context.Context) {
	bell := newBell()
	informer := informers.NewFilteredSecretInformer(c.client, c.namespace, 0, nil, func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, c.name).String()
	})
	var watching sync.WaitGroup
	watching.Go(func() { bell.watch(ctx, informer) })
	defer watching.Wait()
	for {
		began := c.clock.Now()
		again, err := c.look(ctx)
		c.report(ctx, err)
		if err != nil {
			again = retry
		}
		if !bell.wait(ctx, c.clock, began.Add(again)) {
			return
		}
	}
}

// look reads the Secret, writes it where that is due, and serves what it holds. It returns when to look again.
func (c *certificates) look(ctx context.Context) (time.Duration, error) {
	secrets := c.client.CoreV1().Secrets(c.namespace)
	for range rounds {
		secret, err := secrets.Get(ctx, c.name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			secret, err = nil, nil
		}
		if err != nil {
			return 0, fmt.Errorf("read Secret %s/%s: %w", c.namespace, c.name, err)
		}
		var data map[string][]byte
		if secret != nil {
			data = secret.Data
		}
		v, err := c.life.judge(c.authority, data, c.hosts, c.clock.Now())
		if err != nil {
			return 0, err
		}
		c.publish(v.keys)
		if v.data == nil {
			return min(v.again.Sub(c.clock.Now()), lookAgain), nil
		}
		if err := c.write(ctx, secret, v.data); apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
			continue // another replica was first: what it wrote is looked at
		} else if err != nil {
			return 0, err
		}
		c.log.Info("Wrote a certificate", "secret", c.namespace+"/"+c.name, "why", v.why)
	}
	return 0, fmt.Errorf("write Secret %s/%s: others are always first", c.namespace, c.name)
}

func (c *certificates) write(ctx context.Context, old *corev1.Secret, data map[string][]byte) error {
	secrets := c.client.CoreV1().Secrets(c.namespace)
	if old == nil {
		_, err := secrets.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: c.name},
			Type:       corev1.SecretTypeTLS, Data: data,
		}, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("create Secret %s/%s: %w", c.namespace, c.name, err)
		}
		return nil
	}
	changed := old.DeepCopy()
	if changed.Data == nil {
		changed.Data = map[string][]byte{}
	}
	for key, value := range data {
		changed.Data[key] = value
	}
	if _, err := secrets.Update(ctx, changed, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("update Secret %s/%s: %w", c.namespace, c.name, err)
	}
	return nil
}

// publish serves the keys from now on; nil leaves what is served.
func (c *certificates) publish(k *keys) {
	if k == nil {
		return
	}
	c.mu.Lock()
	old := c.keys
	c.keys = k
	changed := c.changed
	c.mu.Unlock()
	leaf := k.served.Leaf
	if old == nil || !old.served.Leaf.Equal(leaf) {
		c.log.Info(
			"Serves a certificate",
			"until",
			leaf.NotAfter.Format(time.RFC3339),
			"renewed",
			renewal(leaf).Format(time.RFC3339),
		)
	}
	if old == nil || !bytes.Equal(old.bundle, k.bundle) {
		for _, f := range changed {
			f()
		}
	}
}

// report remembers what is wrong, and logs it once.
func (c *certificates) report(ctx context.Context, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil && ctx.Err() == nil && (c.trouble == nil || c.trouble.Error() != err.Error()) {
		c.log.Error(err, "Cannot keep the certificate; what is served goes on")
	}
	c.trouble = err
}
