package bmc

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestOldCiphers connects to controllers that support only TLS 1.2 with RSA key exchange.
func TestOldCiphers(t *testing.T) {
	for _, id := range []uint16{tls.TLS_RSA_WITH_AES_128_CBC_SHA, tls.TLS_RSA_WITH_AES_256_CBC_SHA, tls.TLS_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_RSA_WITH_AES_256_GCM_SHA384} {
		t.Run(tls.CipherSuiteName(id), func(t *testing.T) {
			t.Parallel()
			_, a := serve(t, odd{tls: &tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{id}}}) // as old controllers are
			testkit.Value(Controllers{}.Power(t.Context(), a, "status", AsUsual))(t)
			a.Fingerprint = "sha256:" + strings.Repeat("0", 64)
			_, err := Controllers{}.Power(t.Context(), a, "status", AsUsual)
			testkit.Fails(t, err, fail.Unauthorized, "not trusted")
		})
	}
}

// TestNewCiphers: the client prefers better ciphers to RSA key exchange if a controller supports them.
func TestNewCiphers(t *testing.T) {
	var used uint16
	_, a := serve(t, odd{tls: &tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_RSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256}, // as many controllers are
		VerifyConnection: func(s tls.ConnectionState) error { used = s.CipherSuite; return nil }}})
	testkit.Value(Controllers{}.Power(t.Context(), a, "status", AsUsual))(t)
	if used != tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 {
		t.Errorf("the cipher is %s", tls.CipherSuiteName(used))
	}
}

// TestNoCommonCipher: the error for a controller without safe ciphers or TLS names the remedy.
func TestNoCommonCipher(t *testing.T) {
	for name, c := range map[string]*tls.Config{
		"RC4":     {MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_RSA_WITH_RC4_128_SHA}}, // as old controllers are
		"TLS 1.1": {MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11},                         // as old controllers are
	} {
		t.Run(name, func(t *testing.T) {
			_, a := serve(t, odd{tls: c})
			_, err := Controllers{}.Power(t.Context(), a, "status", AsUsual)
			testkit.Fails(t, err, fail.Unreachable, "TLS 1.2", "--protocol ipmi")
		})
	}
}

// TestPlainHTTP: the error for a service without TLS says so, and nothing is sent to it.
func TestPlainHTTP(t *testing.T) {
	asked := false
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	t.Cleanup(s.Close)
	a := Access{Protocol: ProtocolRedfish, Address: strings.TrimPrefix(s.URL, "http://"), User: "admin", Password: []byte(testkit.Secret)}
	_, err := Controllers{}.Power(t.Context(), a, "status", AsUsual)
	testkit.Fails(t, err, fail.Unreachable, "plain HTTP", "--ssl-certificate")
	if asked {
		t.Error("it was asked")
	}
}

// TestAddressesOutsideThePolicy: nothing is sent to an address that the policy excludes, whatever name resolves to it.
func TestAddressesOutsideThePolicy(t *testing.T) {
	tcp := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	var got atomic.Int32
	go func() {
		for {
			c, err := tcp.Accept()
			if err != nil {
				return
			}
			got.Add(1)
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = tcp.Close() })
	udp := testkit.Value(net.ListenPacket("udp", "127.0.0.1:0"))(t)
	go func() {
		for buffer := make([]byte, 1500); ; got.Add(1) {
			if _, _, err := udp.ReadFrom(buffer); err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() { _ = udp.Close() })
	for protocol, at := range map[string]net.Addr{ProtocolRedfish: tcp.Addr(), ProtocolIPMI: udp.LocalAddr()} {
		_, port, err := net.SplitHostPort(at.String())
		testkit.Must(t, err)
		for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]"} {
			a := Access{Protocol: protocol, Address: host + ":" + port, User: "admin", Password: []byte(testkit.Secret)}
			_, err := Controllers{Allowed: func(ip netip.Addr) bool { return !ip.IsLoopback() }}.Power(t.Context(), a, "status", AsUsual)
			testkit.Fails(t, err, fail.Refused, "policy", "bmcNetworks", a.Address)
		}
	}
	if n := got.Load(); n > 0 {
		t.Errorf("%d connections and packets arrived", n)
	}
	link := Access{Address: "bmc.example.org", allowed: netip.MustParsePrefix("fe80::/10").Contains}
	testkit.Must(t, link.may(netip.MustParseAddr("fe80::1%eth0")))
	testkit.Fails(t, link.may(netip.MustParseAddr("2001:db8::1%eth0")), fail.Refused, "2001:db8::1")
	_, a := serve(t, odd{})
	testkit.Value(Controllers{Allowed: netip.Addr.IsLoopback}.Power(t.Context(), a, "status", AsUsual))(t)
}
