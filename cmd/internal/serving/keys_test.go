package serving

import (
	"crypto/x509"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Short lives, so that the tables are read easily: an authority is renewed at 300 days and its certificate at 30.
var (
	begin = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	short = life{authority: 400 * day, certificate: 40 * day}
)

const (
	day  = 24 * time.Hour
	host = "flotilla-agent.flotilla-system.svc"
)

// settledKeys returns what judge writes where there is nothing.
func settledKeys(t *testing.T, now time.Time, hosts ...string) map[string][]byte {
	t.Helper()
	v, err := short.judge("test", nil, hosts, now)
	if err != nil || v.data == nil || v.keys != nil {
		t.Fatalf("the first verdict is %+v, %v", v, err)
	}
	return v.data
}

// accepts tells whether a client that trusts the bundle accepts what is served for the host.
func accepts(t *testing.T, bundle []byte, k *keys, host string, now time.Time) error {
	t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(bundle) {
		t.Fatalf("no bundle: %s", bundle)
	}
	_, err := k.served.Leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: host, CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	return err
}

func TestFirstKeys(t *testing.T) {
	data := settledKeys(t, begin, host, "127.0.0.1", "::1")
	v, err := short.judge("test", data, []string{host, "127.0.0.1", "::1"}, begin.Add(time.Second))
	if err != nil || v.data != nil || v.keys == nil {
		t.Fatalf("what was written is not right at once: %+v, %v", v, err)
	}
	for _, name := range []string{host, "127.0.0.1", "::1"} {
		if err := accepts(t, data[caCert], v.keys, name, begin); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if accepts(t, data[caCert], v.keys, "other.svc", begin) == nil {
		t.Error("it serves names that it must not")
	}
	if !v.again.After(begin) || v.again.After(begin.Add(30*day)) {
		t.Errorf("the next look is at %s", v.again)
	}
}

// TestRenewal follows one Secret over three years in steps of a day: at every time somebody who knows the bundle of a
// day ago accepts what is served, and nothing is written without a reason.
func TestRenewal(t *testing.T) {
	data := settledKeys(t, begin, host)
	bundles := map[string]bool{}
	writes, yesterday := 0, data[caCert]
	for d := range 3 * 365 {
		now := begin.Add(time.Duration(d) * day).Add(settle)
		for {
			v, err := short.judge("test", data, []string{host}, now)
			if err != nil {
				t.Fatal(err)
			}
			if v.data == nil {
				if err := accepts(t, yesterday, v.keys, host, now); err != nil {
					t.Fatalf("day %d: who knows the bundle of the day before does not accept the certificate: %v", d, err)
				}
				if !v.again.After(now) {
					t.Fatalf("day %d: the next look is in the past", d)
				}
				break
			}
			if v.keys == nil {
				t.Fatalf("day %d: nothing could be served until a write (%s)", d, v.why)
			}
			data = v.data
			writes++
		}
		bundles[string(data[caCert])] = true
		yesterday = data[caCert]
	}
	// A certificate lives 40 days and an hour and is renewed after three quarters: about 36 times; an authority three
	// times.
	if writes < 30 || writes > 45 || len(bundles) != 4 {
		t.Errorf("%d writes and %d bundles in three years", writes, len(bundles))
	}
}

func TestBrokenKeys(t *testing.T) {
	other := settledKeys(t, begin, host)
	cases := []struct {
		name string
		edit func(data map[string][]byte)
		now  time.Time
		host string
		says string
		// trusted: a client of the old bundle accepts the new certificate.
		trusted bool
	}{
		{name: "emptied", edit: func(d map[string][]byte) { clear(d) }, says: "no certificate yet"},
		{name: "authority lost", edit: func(d map[string][]byte) { delete(d, caCert) },
			says: "ca.crt of the Secret holds no certificate"},
		{name: "authority broken", edit: func(d map[string][]byte) { d[caCert] = pemOf("CERTIFICATE", []byte("x")) },
			says: "ca.crt of the Secret is broken"},
		{name: "key of the authority lost", edit: func(d map[string][]byte) { delete(d, caKey) },
			says: "ca.key of the Secret holds no key"},
		{name: "key of the authority broken", edit: func(d map[string][]byte) {
			d[caKey] = pemOf("RSA PRIVATE KEY",
				[]byte("x"))
		}, says: "ca.key of the Secret is broken"},
		{name: "key of another authority", edit: func(d map[string][]byte) { d[caKey] = other[caKey] },
			says: "not the key of its ca.crt"},
		{name: "certificate lost", edit: func(d map[string][]byte) { delete(d, corev1.TLSCertKey) },
			says: "tls.crt and tls.key of the Secret", trusted: true},
		{name: "key of another certificate", edit: func(d map[string][]byte) { d[corev1.TLSPrivateKeyKey] = other[corev1.TLSPrivateKeyKey] }, says: "tls.crt and tls.key of the Secret", trusted: true},
		{name: "certificate of another authority", edit: func(d map[string][]byte) {
			d[corev1.TLSCertKey], d[corev1.TLSPrivateKeyKey] = other[corev1.TLSCertKey], other[corev1.TLSPrivateKeyKey]
		}, says: "does not serve " + host, trusted: true},
		{name: "another host", host: "10.0.0.7", says: "does not serve 10.0.0.7", trusted: true},
		{name: "nobody was there for 50 days", now: begin.Add(50 * day), says: "expired", trusted: true},
		{name: "nobody was there for 310 days", now: begin.Add(310 * day), says: "an authority in its last quarter",
			trusted: true},
		{name: "nobody was there for years", now: begin.Add(3000 * day), says: "the authority is not valid now"},
		{name: "a clock of the past", now: begin.Add(-30 * day), says: "the authority is not valid now"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			old := settledKeys(t, begin, host)
			data := maps.Clone(old)
			if tc.edit != nil {
				tc.edit(data)
			}
			now, name := begin, host
			if !tc.now.IsZero() {
				now = tc.now
			}
			if tc.host != "" {
				name = tc.host
			}
			v, err := short.judge("test", data, []string{name}, now)
			if err != nil || v.data == nil || !strings.Contains(v.why, tc.says) {
				t.Fatalf("the verdict is %q, %v, writes %v; want %q", v.why, err, v.data != nil, tc.says)
			}
			next, err := short.judge("test", v.data, []string{name}, now)
			if err != nil || next.data != nil {
				t.Fatalf("what was written is not right: %q, %v", next.why, err)
			}
			if err := accepts(t, next.keys.bundle, next.keys, name, now); err != nil {
				t.Error(err)
			}
			if err := accepts(t, old[caCert], next.keys, name, now); (err == nil) != tc.trusted {
				t.Errorf("who knows the old bundle says %v, want trusted %v", err, tc.trusted)
			}
		})
	}
}

// TestTwoNames holds that replicas that are asked by different names, as during an update, do not write against each
// other.
func TestTwoNames(t *testing.T) {
	data := settledKeys(t, begin, "old.example")
	v, err := short.judge("test", data, []string{"new.example"}, begin)
	if err != nil || v.data == nil || v.keys == nil {
		t.Fatalf("%+v, %v", v, err)
	}
	for _, name := range []string{"old.example", "new.example"} {
		again, err := short.judge("test", v.data, []string{name}, begin)
		if err != nil || again.data != nil {
			t.Errorf("the replica at %s writes again: %q, %v", name, again.why, err)
		}
	}
}

// TestNewAuthorityWaits holds that an authority signs only after caBundles had time to be written.
func TestNewAuthorityWaits(t *testing.T) {
	old := settledKeys(t, begin, host)
	k, err := parseKeys(old)
	if err != nil {
		t.Fatal(err)
	}
	now := begin.Add(35 * day) // the certificate is due
	made, err := short.remake("test", k, nil, []string{host}, now, "test")
	if err != nil {
		t.Fatal(err)
	}
	v, err := short.judge("test", made.data, []string{host}, now.Add(time.Second))
	if err != nil || v.data != nil || v.keys == nil {
		t.Fatalf("a certificate is signed by an authority of a second ago: %q, %v", v.why, err)
	}
	if err := accepts(t, old[caCert], v.keys, host, now); err != nil {
		t.Errorf("who knows the bundle of before does not accept what is served: %v", err)
	}
	if v.again.After(now.Add(settle)) {
		t.Errorf("the next look is at %s", v.again)
	}
	v, err = short.judge("test", made.data, []string{host}, now.Add(settle))
	if err != nil || v.data == nil || !strings.Contains(v.why, "a certificate in its last quarter") {
		t.Errorf("the certificate is not renewed then: %q, %v", v.why, err)
	}
}
