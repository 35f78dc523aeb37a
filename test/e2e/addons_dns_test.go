//go:build e2e

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/testkit"
)

// The key and the zone of the test's name server.
const (
	tsigSecret = "bmF1cGVnb3MgdGVzdHMgaXRzIGFkZG9ucyBoZXJlISE="
	tsigZone   = "addons.test"
)

// nameserver is a BIND on all addresses of this host.
type nameserver struct {
	port    int
	keyFile string
}

// startNameserver starts BIND with a zone that the key may transfer and change. The test's end stops it.
func startNameserver(t *testing.T) nameserver {
	t.Helper()
	dir := t.TempDir()
	n := nameserver{port: testkit.FreePort(t), keyFile: filepath.Join(dir, "tsig")}
	zone := "$TTL 60\n@ IN SOA ns hostmaster 1 60 60 600 60\n@ IN NS ns\nns IN A 192.0.2.53\n"
	conf := fmt.Sprintf(`key naupegos { algorithm hmac-sha256; secret %q; };
options { directory %q; pid-file none; session-keyfile none; listen-on port %d { any; }; listen-on-v6 { none; }; recursion no; dnssec-validation no; };
controls { };
zone %q { type primary; file "zone"; allow-transfer { key naupegos; }; update-policy { grant naupegos zonesub ANY; }; };
`, tsigSecret, dir, n.port, tsigZone)
	for file, text := range map[string]string{"zone": zone, "named.conf": conf, "tsig": "naupegos:" + tsigSecret + "\n"} {
		testkit.Must(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
	}
	ctx, stop := context.WithCancel(context.Background())
	named := exec.CommandContext(ctx, "named", "-f", "-c", filepath.Join(dir, "named.conf"))
	log := testkit.Value(os.Create(filepath.Join(dir, "log")))(t)
	named.Stdout, named.Stderr = log, log
	testkit.Must(t, named.Start())
	t.Cleanup(func() {
		stop()
		_ = named.Wait() // it was killed
		_ = log.Close()
	})
	until(t, 30*time.Second*slower, 100*time.Millisecond, func() error { return n.has(t, "ns."+tsigZone, "192.0.2.53") })
	return n
}

// has returns an error unless a name has this address; with "", unless it has none.
func (n nameserver) has(t *testing.T, name, address string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	r := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", fmt.Sprintf("127.0.0.1:%d", n.port))
	}}
	got, err := r.LookupHost(ctx, name+".")
	var no *net.DNSError
	switch {
	case address == "" && errors.As(err, &no) && no.IsNotFound:
		return nil
	case address != "" && err == nil && len(got) == 1 && got[0] == address:
		return nil
	}
	return fmt.Errorf("%s has %v (%v), want %q", name, got, err, address) //nolint:errorlint // there may be none
}
