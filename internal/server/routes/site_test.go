package routes_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry"
	"github.com/naupegos/naupegos/internal/registry/bmc"
	"github.com/naupegos/naupegos/internal/server"
	"github.com/naupegos/naupegos/internal/server/authority"
	"github.com/naupegos/naupegos/internal/server/routes"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

// legacy returns a body in the form of the older system: from machine n, at a boot.
func legacy(n int, boot string) string {
	return fmt.Sprintf(`{"boot-info": {"uuid": "b7f5f93a-b029-475f-b3a4-479ba198cb8%x", "mac": "52:54:00:e8:32:5%x", "random-id": %q},
	 "interfaces": [{"ipv4": "127.0.0.1", "cidrv4": "127.0.0.1/8", "netmask": 8, "mac": "", "name": "lo", "gateway": "10.0.0.1", "fqdn": []},
	  {"ipv4": "192.168.7.%[1]d", "cidrv4": "192.168.7.%[1]d/24", "netmask": 24, "mac": "52:54:01:e8:32:5%[2]x", "name": "eth1", "gateway": "", "fqdn": []},
	  {"ipv4": "10.0.0.%[1]d", "cidrv4": "10.0.0.%[1]d/21", "netmask": 21, "mac": "52:54:00:e8:32:5%[2]x", "name": "eth0", "gateway": "10.0.0.1", "fqdn": ["m%[1]d.example.org"]}],
	 "disks": [{"size-bytes": 21474836480, "path": "/dev/sda"}],
	 "lldp": {"is_file": true, "data": {"interfaces": [{"name": "eth0", "chassis": {"id": "28:f1:0e:12:20:00", "name": "<script>"}, "port": {"id": "fe:54:00:e8:32:5b"}}]}},
	 "ignition-journal": ["line of %[3]s"]}`, n, n, boot)
}

type issuer struct{ ca *authority.Authority }

func (i issuer) IssueMachine(uuid string, public any) ([]byte, error) {
	der, err := i.ca.Sign(x509.Certificate{Subject: pkix.Name{CommonName: uuid}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, public, time.Hour)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), err
}

// switchboard is a BMC that accepts one password; registry/bmc tests real protocols.
type switchboard struct{}

func (switchboard) Power(_ context.Context, a bmc.Access, action, _ string) (bool, error) {
	if a.Address != "10.9.0.11" || a.User != "admin" || string(a.Password) != "hidden" {
		return false, fail.New(fail.Unauthorized, "not accepted")
	}
	return action == "on", nil
}

// site is a server with a registry.
type site struct {
	t           testing.TB
	http, https string
	roots       *x509.CertPool
	registry    *registry.Registry
	ignition    string // the machines' configuration; empty: unknown
	stopped     bool
}

// tokens that the test's guard accepts.
var tokens = map[server.Role]string{server.Read: "r", server.Operate: "ro", server.Admin: "roa"}

func newSite(t testing.TB, o registry.Options) *site {
	t.Helper()
	st := testkit.Value(store.Open(t.Context(), store.Location{Dir: t.TempDir()}))(t)
	t.Cleanup(func() { testkit.Must(t, st.Close()) })
	s := &site{t: t}
	srv, own, reg, err := listen(t.Context(), st, o, routes.Options{
		Shutdown: func() { s.stopped = true }, Settings: map[string]any{"installs": 5},
		Backup: func(context.Context) (any, error) { return map[string]int{"dest_size": 1}, nil },
		Ignition: func(_ context.Context, query string) ([]byte, error) {
			if s.ignition == "" || !strings.Contains(query, "os=installed") {
				return nil, fail.New(fail.NotFound, "no group")
			}
			return []byte(s.ignition), nil
		},
	})
	testkit.Must(t, err)
	s.roots, s.registry = own.Pool(), reg
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ctx) }()
	t.Cleanup(func() { stop(); testkit.Must(t, <-done) })
	s.http, s.https = "http://"+srv.Addresses().HTTP, "https://"+srv.Addresses().HTTPS
	return s
}

// machine returns a machine's client: over HTTPS, with a certificate if there is one.
func (s *site) machine(cert *tls.Certificate) *http.Client {
	c := &tls.Config{RootCAs: s.roots}
	if cert != nil {
		c.Certificates = []tls.Certificate{*cert}
	}
	tr := &http.Transport{TLSClientConfig: c}
	s.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: time.Minute}
}

// ask sends a request, and returns status and body. An address that begins with / is requested over HTTP, without a token.
func (s *site) ask(c *http.Client, role server.Role, method, address, body string, headers ...string) (int, string) {
	s.t.Helper()
	if strings.HasPrefix(address, "/") {
		address = s.http + address
	}
	req := testkit.Value(http.NewRequestWithContext(s.t.Context(), method, address, strings.NewReader(body)))(s.t)
	if role != server.Anybody {
		req.Header.Set("Authorization", tokens[role])
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res := testkit.Value(c.Do(req))(s.t)
	defer res.Body.Close()
	return res.StatusCode, string(testkit.Value(io.ReadAll(res.Body))(s.t))
}
