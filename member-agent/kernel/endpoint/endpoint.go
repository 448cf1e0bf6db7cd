// Package endpoint asks an address that a user wrote, once, by HTTP.
//
// Who may write the address can have the program ask what only the program's network reaches. So a request carries no
// credentials, no redirect is followed, and the program's own machine, its link and the addresses at which clouds give
// credentials can be refused: when a connection is made, by the address that it is made to, whatever name stood for it.
package endpoint

import (
	"context"
	"crypto/tls"
	"crypto/x509"
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
)

const (
	// maxAnswer is how much of an answer is read: a figure fits, and no answer fills the program's memory.
	maxAnswer = 64 << 10
	// maxHeaders bounds the head of an answer.
	maxHeaders = 16 << 10
)

// Question is an address to ask with GET.
type Question struct {
	URL string
	// CABundle are the authorities, as PEM, that the server's certificate may be of; empty for those of the system.
	CABundle  []byte
	Timeout   time.Duration
	UserAgent string
	// Refusal says why local addresses are not asked; "" asks them.
	Refusal string
	// Remedy is what to do about a question that cannot be asked.
	Remedy string
}

// Answer is the status and the body of an answer.
type Answer struct {
	Status int
	Body   []byte
}

// Ask asks once. The error has the address, without its query, and what is wrong.
func Ask(ctx context.Context, q Question) (Answer, error) {
	where := Shown(q.URL)
	client, err := clientFor(q)
	if err != nil {
		return Answer{}, fmt.Errorf("%s is not asked: %w; %s", where, err, q.Remedy)
	}
	ctx, cancel := context.WithTimeout(ctx, q.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, q.URL, nil)
	if err != nil {
		return Answer{}, fmt.Errorf("%s is not asked: %w; %s", where, bare(err), q.Remedy)
	}
	request.Header.Set("User-Agent", q.UserAgent)
	response, err := client.Do(request)
	if err != nil {
		return Answer{}, fmt.Errorf("%s did not answer: %w", where, bare(err))
	}
	defer func() { _ = response.Body.Close() }() // all that is wanted of it is read
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return Answer{}, fmt.Errorf("%s did not answer to the end: %w", where, bare(err))
	case len(body) > maxAnswer:
		return Answer{}, fmt.Errorf("%s answered more than %d KiB", where, maxAnswer>>10)
	}
	return Answer{response.StatusCode, body}, nil
}

// Shown returns an address as messages name it: its query may hold what is not for everybody.
func Shown(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "the url"
	}
	return u.Scheme + "://" + u.Host + u.EscapedPath()
}

// bare returns an error without the address that the client puts before it.
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
func clientFor(q Question) (*http.Client, error) {
	trust := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(q.CABundle) > 0 {
		trust.RootCAs = x509.NewCertPool()
		if !trust.RootCAs.AppendCertsFromPEM(q.CABundle) {
			return nil, errors.New("its caBundle has no certificate")
		}
	}
	dialer := &net.Dialer{}
	if q.Refusal != "" {
		dialer.Control = func(_, address string, _ syscall.RawConn) error { return refuseLocal(address, q.Refusal) }
	}
	return &http.Client{
		Transport: &http.Transport{
			DialContext: dialer.DialContext, TLSClientConfig: trust, DisableKeepAlives: true, DisableCompression: true,
			MaxResponseHeaderBytes: maxHeaders,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// refuseLocal refuses a connection to a local address, after its name was resolved.
func refuseLocal(address, refusal string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("read the address %s: %w", address, err)
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return fmt.Errorf("read the address %s: %w", address, err)
	}
	if local(ip) {
		return fmt.Errorf("its address %s %s", ip, refusal)
	}
	return nil
}

// local reports whether an address is the machine's own, of its link, none at all, or one at which clouds give
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
