package serving

import (
	"fmt"
	"net"
	"net/url"
	"strconv"

	"github.com/spf13/pflag"
)

// off is the bind address that turns the server off.
const off = "0"

// Flags are what the command line says of the server.
type Flags struct {
	// BindAddress is host:port; "0" means no server.
	BindAddress string
	// URL is https://host[:port] under which API servers reach this server; empty means the program's Service.
	URL string
	// DeletionProtection reports whether the deletion of namespaces and definitions is guarded.
	DeletionProtection bool
}

// Add adds the flags to the set. The Service of that name is what API servers call without --webhook-url.
func (f *Flags) Add(set *pflag.FlagSet, service string) {
	set.StringVar(
		&f.BindAddress,
		"webhook-bind-address",
		":9443",
		"address that serves API servers, by TLS: conversion of older versions, and admission; 0 turns it off",
	)
	set.StringVar(
		&f.URL,
		"webhook-url",
		"",
		"https://host:port under which API servers reach that address; empty means the Service "+service+", port 443, in "+
			"the namespace of --leader-election-namespace",
	)
	set.BoolVar(&f.DeletionProtection, "deletion-protection", true, "refuse to delete namespaces and "+
		"CustomResourceDefinitions with the label policy.kruise.io/delete-protection, as the label says; "+
		"needs --webhook-bind-address")
}

// On tells whether there is a server.
func (f *Flags) On() bool { return f.BindAddress != off }

// Validate says what is wrong with the flags.
func (f *Flags) Validate() error {
	if !f.On() {
		if f.URL != "" {
			return fmt.Errorf(
				"--webhook-url %s needs a server: leave it out, or give --webhook-bind-address another value than 0",
				f.URL,
			)
		}
		return nil
	}
	if _, _, err := f.listen(); err != nil {
		return err
	}
	if f.URL == "" {
		return nil
	}
	u, err := url.Parse(f.URL)
	switch {
	case err != nil:
		return fmt.Errorf("--webhook-url %q is no URL: %w", f.URL, err)
	case u.Scheme != "https":
		return fmt.Errorf("--webhook-url %q must begin with https://: API servers call nothing else", f.URL)
	case u.Hostname() == "":
		return fmt.Errorf("--webhook-url %q names no host", f.URL)
	case u.Path != "" && u.Path != "/", u.RawQuery != "", u.Fragment != "", u.User != nil:
		return fmt.Errorf("--webhook-url %q must be https://host:port and nothing more", f.URL)
	}
	return nil
}

// listen returns the host, which may be empty, and the port of BindAddress.
func (f *Flags) listen() (host string, port int, err error) {
	host, text, err := net.SplitHostPort(f.BindAddress)
	if err != nil {
		return "", 0, fmt.Errorf(
			"--webhook-bind-address %q is neither 0 nor an address as :9443 or 127.0.0.1:9443",
			f.BindAddress,
		)
	}
	const highest = 65535
	port, err = strconv.Atoi(text)
	if err != nil || port < 1 || port > highest {
		return "", 0, fmt.Errorf("--webhook-bind-address %q: the port must be a number from 1 to %d", f.BindAddress, highest)
	}
	return host, port, nil
}
