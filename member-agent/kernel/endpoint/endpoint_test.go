package endpoint

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"
)

func TestAskRefusesLocalAddresses(t *testing.T) {
	asked := false
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	defer server.Close()
	q := Question{URL: server.URL + "/path?token=secret", Timeout: 10 * time.Second, Refusal: "is not for jobs"}
	_, err := Ask(t.Context(), q)
	if err == nil || !strings.Contains(err.Error(), "/path did not answer") || strings.Contains(err.Error(), "secret") ||
		!strings.Contains(err.Error(), "its address 127.0.0.1 is not for jobs") || asked {
		t.Errorf("asked %v: %v", asked, err)
	}
	q.Refusal = ""
	if answer, err := Ask(t.Context(), q); err != nil || answer.Status != http.StatusOK || !asked {
		t.Errorf("%+v: %v", answer, err)
	}
}

func TestLocal(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1": true, "127.255.0.1": true, "::1": true, "0.0.0.0": true, "0.1.2.3": true, "::": true,
		"169.254.169.254": true, "fe80::1": true, "fe80::1%eth0": true,
		"::ffff:169.254.169.254": true, "224.0.0.1": true, "ff02::1": true, "64:ff9b::a9fe:a9fe": true, "2002:7f00:1::": true,
		"100.100.100.200": true,
		"168.63.129.16":   true, "fd00:ec2::254": true, "fd20:ce::254": true,
		"10.0.0.1": false, "192.168.1.1": false, "203.0.113.7": false, "2001:db8::1": false, "fd00::1": false,
		"64:ff9b::a00:1": false, "::ffff:10.0.0.1": false,
	} {
		if got := local(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s is local: %t", address, got)
		}
	}
}
