package checks

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/topology/checks"
)

const (
	// maxAnswer is how much of an answer is read: a figure fits, and no answer fills the hub's memory.
	maxAnswer = 64 << 10
	// maxHeaders bounds the head of an answer.
	maxHeaders = 16 << 10
	// The defaults hold where those of the schema were not applied.
	defaultTimeout    = 10 * time.Second
	defaultInterval   = 30 * time.Second
	defaultExpression = "status == 200"
)

// found is what one question gave.
type found struct{ unmet, says string }

func failed(format string, args ...any) found {
	text := fmt.Sprintf(format, args...)
	return found{unmet: text, says: text}
}

// fetch asks an address once.
func fetch(ctx context.Context, q *topology.WaveHTTP, reachLocal bool) found {
	where := shown(q.URL)
	client, err := clientFor(q, reachLocal)
	if err != nil {
		return failed("%s is not asked: %v; correct the policy", where, err)
	}
	ctx, cancel := context.WithTimeout(ctx, durationOf(q.Timeout, defaultTimeout))
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, q.URL, nil)
	if err != nil {
		return failed("%s is not asked: %v; correct the policy", where, bare(err))
	}
	request.Header.Set("User-Agent", "flotilla-hub")
	response, err := client.Do(request)
	if err != nil {
		return failed("%s did not answer: %v", where, bare(err))
	}
	defer func() { _ = response.Body.Close() }() // all that is wanted of it is read
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return failed("%s did not answer to the end: %v", where, bare(err))
	case len(body) > maxAnswer:
		return failed("%s answered more than %d KiB", where, maxAnswer>>10)
	}
	says := fmt.Sprintf("%s answered %d", where, response.StatusCode)
	why := checks.Unmet(cmp.Or(q.Expression, defaultExpression), map[string]any{
		"status": response.StatusCode, "text": string(body), "json": asJSON(body),
	})
	if why == "" {
		return found{says: says}
	}
	if response.StatusCode >= 300 && response.StatusCode < 400 {
		why += "; redirects are not followed"
	}
	return failed("%s: %s", says, why)
}

// asJSON reads an answer as JSON, nil where it is none.
func asJSON(body []byte) any {
	var value any
	if json.Unmarshal(body, &value) != nil {
		return nil
	}
	return value
}

// shown is an address as messages name it: its query may hold what is not for everybody.
func shown(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "the url"
	}
	return u.Scheme + "://" + u.Host + u.EscapedPath()
}

// bare is an error without the address that the client puts before it.
func bare(err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		if wrapped.Timeout() {
			return errors.New("it takes longer than its timeout")
		}
		return wrapped.Err
	}
	return err
}

// clientFor returns a client that asks one address once: each question makes a connection of its own, so that each is
// judged by the address that it goes to. It knows no proxy, for that would make the connection.
func clientFor(q *topology.WaveHTTP, reachLocal bool) (*http.Client, error) {
	trust := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(q.CABundle) > 0 {
		trust.RootCAs = x509.NewCertPool()
		if !trust.RootCAs.AppendCertsFromPEM(q.CABundle) {
			return nil, errors.New("its caBundle has no certificate")
		}
	}
	dialer := &net.Dialer{}
	if !reachLocal {
		dialer.Control = refuseLocal
	}
	return &http.Client{
		Transport: &http.Transport{
			DialContext: dialer.DialContext, TLSClientConfig: trust, DisableKeepAlives: true, DisableCompression: true,
			MaxResponseHeaderBytes: maxHeaders,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// refuseLocal refuses a connection to an address that is not for policies. It is asked when the name is resolved.
func refuseLocal(_, address string, _ syscall.RawConn) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("read the address %s: %w", address, err)
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return fmt.Errorf("read the address %s: %w", address, err)
	}
	if local(ip) {
		return fmt.Errorf(
			"its address %s is of the hub's own machine or link, or gives credentials of a cloud; the hub asks it only with "+
				"--checks-reach-local",
			ip,
		)
	}
	return nil
}

// local tells whether an address is the machine's own, of its link, none at all, or one at which clouds give
// credentials.
func local(ip netip.Addr) bool {
	ip = ip.Unmap().WithZone("")
	if inner, ok := carried4(ip); ok {
		return local(inner)
	}
	return ip.IsLoopback() || ip.IsLinkLocalUnicast() || ip.IsMulticast() || ip.IsUnspecified() ||
		ip.Is4() && ip.As4()[0] == 0 || slices.Contains(clouds(), ip.String())
}

// clouds are the addresses beyond the link at which clouds give credentials: those of Alibaba, Azure, AWS and Google.
func clouds() []string {
	return strings.Fields("100.100.100.200 168.63.129.16 fd00:ec2::254 fd20:ce::254")
}

// carried4 returns the IPv4 address that a gateway takes out of an IPv6 one (NAT64, 6to4).
func carried4(ip netip.Addr) (netip.Addr, bool) {
	if !ip.Is6() {
		return netip.Addr{}, false
	}
	b := ip.As16()
	switch {
	case netip.MustParsePrefix("64:ff9b::/96").Contains(ip):
		return netip.AddrFrom4([4]byte(b[12:16])), true
	case netip.MustParsePrefix("2002::/16").Contains(ip):
		return netip.AddrFrom4([4]byte(b[2:6])), true
	}
	return netip.Addr{}, false
}

func durationOf(text string, otherwise time.Duration) time.Duration {
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return d
	}
	return otherwise
}
