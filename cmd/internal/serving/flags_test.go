package serving

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestFlags(t *testing.T) {
	cases := []struct {
		name string
		args []string
		says []string // nil: valid
	}{
		{"nothing", nil, nil},
		{"off", []string{"--webhook-bind-address=0"}, nil},
		{"an address", []string{"--webhook-bind-address=127.0.0.1:12345"}, nil},
		{"an IPv6 address", []string{"--webhook-bind-address=[::1]:12345"}, nil},
		{"a URL", []string{"--webhook-url=https://hub.example:9443"}, nil},
		{"a URL with an address", []string{"--webhook-url=https://10.0.0.7:9443/"}, nil},
		{"a URL and no server", []string{"--webhook-bind-address=0", "--webhook-url=https://hub.example"},
			[]string{"--webhook-url https://hub.example needs a server", "--webhook-bind-address another value than 0"}},
		{"no port", []string{"--webhook-bind-address=localhost"},
			[]string{`--webhook-bind-address "localhost"`, "0", "127.0.0.1:9443"}},
		{"empty", []string{"--webhook-bind-address="}, []string{`--webhook-bind-address ""`}},
		{"port 0", []string{"--webhook-bind-address=:0"}, []string{`":0"`, "from 1 to 65535"}},
		{"a port too high", []string{"--webhook-bind-address=:65536"}, []string{`":65536"`, "from 1 to 65535"}},
		{"a port by name", []string{"--webhook-bind-address=:https"}, []string{`":https"`, "from 1 to 65535"}},
		{"http", []string{"--webhook-url=http://hub.example"}, []string{`"http://hub.example"`, "https://"}},
		{"a host alone", []string{"--webhook-url=hub.example:9443"}, []string{`"hub.example:9443"`, "https://"}},
		{"no host", []string{"--webhook-url=https://:9443"}, []string{`"https://:9443"`, "no host"}},
		{"a path", []string{"--webhook-url=https://hub.example/convert"}, []string{"https://host:port and nothing more"}},
		{"a query", []string{"--webhook-url=https://hub.example?a=b"}, []string{"https://host:port and nothing more"}},
		{"a user", []string{"--webhook-url=https://me@hub.example"}, []string{"https://host:port and nothing more"}},
		{"no URL at all", []string{"--webhook-url=https://hub.example:99999999999999999999:1"}, []string{"--webhook-url"}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			var f Flags
			set := pflag.NewFlagSet("test", pflag.ContinueOnError)
			f.Add(set, "flotilla-agent")
			if err := set.Parse(tc.args); err != nil {
				t.Fatal(err)
			}
			err := f.Validate()
			if (err == nil) != (tc.says == nil) {
				t.Fatalf("it says %v, want %q", err, tc.says)
			}
			for _, want := range tc.says {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
		})
	}
}
