package registration_test

import (
	"crypto"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	mathrand "math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// jwt is a token in its three parts.
type jwt struct{ header, claims, signature []byte }

func readJWT(t *testing.T, token string) jwt {
	t.Helper()
	var parts [3][]byte
	for i, part := range strings.SplitN(token, ".", len(parts)) {
		data, err := base64.RawURLEncoding.DecodeString(part)
		if err != nil {
			t.Fatal(err)
		}
		parts[i] = data
	}
	return jwt{parts[0], parts[1], parts[2]}
}

// signed are the bytes that the signature is of.
func (j jwt) signed() string {
	return base64.RawURLEncoding.EncodeToString(j.header) + "." + base64.RawURLEncoding.EncodeToString(j.claims)
}

func (j jwt) String() string {
	return j.signed() + "." + base64.RawURLEncoding.EncodeToString(j.signature)
}

// claim returns the token with one to three other claims, which a forger would like to have, under the old signature.
func (j jwt) claim(t *testing.T, random *mathrand.Rand) jwt {
	t.Helper()
	claims := map[string]any{}
	if err := json.Unmarshal(j.claims, &claims); err != nil {
		t.Fatal(err)
	}
	wishes := map[string]any{
		"sub": "system:serviceaccount:kube-system:clusterrole-aggregation-controller",
		"exp": int64(1) << 33, "nbf": 0, "iat": 0, "aud": []string{"everybody"}, "iss": "https://mallory.example.org",
		"jti": fmt.Sprint(random.Uint64()),
		"kubernetes.io": map[string]any{
			"namespace": topology.SystemNamespace, "serviceaccount": map[string]any{"name": topology.JoinObject("west"),
				"uid": fmt.Sprint(random.Uint64())},
		},
	}
	names := slices.Sorted(maps.Keys(wishes))
	for range 1 + random.IntN(3) {
		name := names[random.IntN(len(names))]
		claims[name] = wishes[name]
	}
	var err error
	if j.claims, err = json.Marshal(claims); err != nil {
		t.Fatal(err)
	}
	return j
}

// forgedTokens holds that the hub's API server answers nobody whose token is not, byte for byte, one that it signed: 10
// 000 forged ones.
func forgedTokens(t *testing.T, h *hub) {
	const tokens = 10_000
	client, err := rest.HTTPClientFor(&rest.Config{Host: h.admin.Host,
		TLSClientConfig: rest.TLSClientConfig{CAData: h.admin.CAData}})
	if err != nil {
		t.Fatal(err)
	}
	once := func(path, token string) (int, string, error) {
		request, err := http.NewRequestWithContext(h.ctx, http.MethodGet, h.admin.Host+path, http.NoBody)
		if err != nil {
			return 0, "", err
		}
		request.Header.Set("Authorization", "Bearer "+token)
		response, err := client.Do(request)
		if err != nil {
			return 0, "", err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		return response.StatusCode, string(body), err
	}
	// The API server closes connections on which it has refused somebody: what it did not answer is asked again.
	ask := func(path, token string) (status int, body string, err error) {
		const attempts = 20
		for range attempts {
			if status, body, err = once(path, token); err == nil || h.ctx.Err() != nil {
				break
			}
		}
		return status, body, err
	}
	const own = "/apis/topology.flotilla.dev/v1alpha1/memberclusters/east"
	token, other := h.token("east"), h.token("west")
	h.eventually("the token as it was made", func() string {
		if status, _, err := ask(own, token.Token); err != nil || status != http.StatusOK {
			return fmt.Sprintf("status %d, %v", status, err)
		}
		return ""
	})
	_, published, err := ask("/openid/v1/jwks", token.Token)
	if err != nil {
		t.Fatal(err)
	}
	seed := mathrand.Uint64()
	forger := newForger(t, readJWT(t, token.Token), readJWT(t, other.Token), []byte(published), seed)
	group := errgroup.Group{}
	group.SetLimit(16)
	for i := range tokens {
		forged, how := forger.next()
		group.Go(func() error {
			status, _, err := ask(own, forged)
			if err == nil && status != http.StatusUnauthorized {
				err = fmt.Errorf("token %d (seed %d), %s: status %d, want 401: %s", i, seed, how, status, forged)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d forged tokens, none taken", tokens)
	if status, _, err := ask(own, token.Token); err != nil || status != http.StatusOK {
		t.Errorf("the token as it was made, afterwards: status %d, %v", status, err)
	}
}

// forger makes tokens of one that is good, and of another one.
type forger struct {
	t           *testing.T
	good, other jwt
	key         *rsa.PrivateKey
	published   []byte
	random      *mathrand.Rand
}

func newForger(t *testing.T, good, other jwt, published []byte, seed uint64) *forger {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return &forger{t, good, other, key, published, mathrand.New(mathrand.NewPCG(seed, 7))}
}

// next returns a forged token, and how it was made.
func (f *forger) next() (token, how string) {
	forged := f.good
	switch f.random.IntN(7) {
	case 0:
		parts := []*[]byte{&forged.header, &forged.claims, &forged.signature}
		part := f.random.IntN(len(parts))
		spoiled := slices.Clone(*parts[part])
		at, bit := f.random.IntN(len(spoiled)), byte(1)<<f.random.IntN(8)
		spoiled[at] ^= bit
		*parts[part] = spoiled
		return forged.String(), fmt.Sprintf("bit %x of byte %d of part %d turned", bit, at, part)
	case 1:
		forged = forged.claim(f.t, f.random)
		forged.header, forged.signature = []byte(`{"alg":"none","typ":"JWT"}`), nil
		return forged.String(), "not signed at all"
	case 2:
		forged = forged.claim(f.t, f.random)
		return forged.String(), "other claims under the same signature"
	case 3:
		return f.sign(forged.claim(f.t, f.random)).String(), "other claims, signed by another key"
	case 4:
		return f.sign(forged).String(), "the same claims, signed by another key"
	case 5:
		forged.header = []byte(`{"alg":"HS256","typ":"JWT"}`)
		mac := hmac.New(sha256.New, f.published)
		mac.Write([]byte(forged.signed()))
		forged.signature = mac.Sum(nil)
		return forged.String(), "signed with the public keys as a secret"
	default:
		if f.random.IntN(2) == 0 {
			forged.signature = f.other.signature
			return forged.String(), "under the signature of another token"
		}
		whole := forged.String()
		return whole[:1+f.random.IntN(len(whole)-1)], "cut"
	}
}

// sign signs a token with the forger's key, as the API server signs its own.
func (f *forger) sign(j jwt) jwt {
	f.t.Helper()
	hash := sha256.Sum256([]byte(j.signed()))
	signature, err := rsa.SignPKCS1v15(rand.Reader, f.key, crypto.SHA256, hash[:])
	if err != nil {
		f.t.Fatal(err)
	}
	j.signature = signature
	return j
}
