//go:build e2e

package e2e_test

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/testkit"
)

// renews makes every certificate due: renew replaces them all, servers use the new ones, and no pod restarts. It refuses a cluster with other
// pending changes.
func (r *rig) renews(t *testing.T, worker string) {
	t.Helper()
	if out := r.must(0, "renew", r.name, "--yes").stdout; !strings.Contains(out, "nothing is due before ") {
		t.Errorf("without due certificates, renew prints: %s", out)
	}
	before, pods := r.certificates(), r.lastingPods()
	was := r.served()
	inv := r.invocation()
	inv.bin, inv.env = built.kill, append(inv.env, "NAUPEGOS_RENEW_BEFORE=8759h59m")
	until(t, 2*time.Minute, time.Second, func() error { // the youngest one becomes due a minute after it was issued
		for _, c := range r.certificates() {
			if left := time.Until(c.NotAfter); !c.CA && left > 8759*time.Hour+59*time.Minute {
				return fmt.Errorf("%s is valid for %v", c.Name, left)
			}
		}
		return nil
	})
	renew := func() result {
		r.calm.end()
		return naupegos(t, inv, "--state-dir", r.state, "renew", "--all", "--yes", "-o", "json")
	}
	r.ssh(worker, "systemctl stop kubelet")
	if res := renew(); res.code != 4 || !strings.Contains(res.stderr, "apart from certificates, apply has ") {
		t.Errorf("a kubelet does not run, and yet %v", res)
	}
	if now := r.certificates(); !reflect.DeepEqual(now, before) {
		t.Errorf("a renewal that was refused has changed the certificates:\n%v\n%v", before, now)
	}
	r.apply()

	res := renew()
	var done struct{ Items []struct{ Renewed []string } }
	if err := json.Unmarshal([]byte(res.stdout), &done); err != nil || res.code != 0 || len(done.Items) != 1 {
		t.Fatalf("%v: %v", err, res)
	}
	t.Logf("FIGURE %d certificates of %s renewed in %v", len(done.Items[0].Renewed), r.name, res.took)
	r.finished(res)
	after := r.certificates()
	for name, was := range before {
		if was.CA != (after[name].Fingerprint == was.Fingerprint) {
			t.Errorf("%s was %v, and is %v", name, was, after[name])
		}
	}
	if now := r.served(); now == was {
		t.Error("the API server still shows its former certificate")
	}
	if now := r.lastingPods(); !maps.Equal(now, pods) {
		t.Errorf("pods were %v, and are %v", pods, now)
	}
	r.healthy()
}

// certificates returns all certificates of the cluster by name; the names of authorities begin with "authority ".
func (r *rig) certificates() map[string]pki.CertInfo {
	r.t.Helper()
	var list struct{ Items []pki.CertInfo }
	if err := json.Unmarshal([]byte(r.must(0, "certs", "list", r.name, "-o", "json").stdout), &list); err != nil || len(list.Items) == 0 {
		r.t.Fatalf("%d certificates, %v", len(list.Items), err)
	}
	all := map[string]pki.CertInfo{}
	for _, c := range list.Items {
		name := c.Name
		if c.CA {
			name = "authority " + name
		}
		all[name] = c
	}
	return all
}

// served returns the fingerprint of the first API server's certificate.
func (r *rig) served() string {
	r.t.Helper()
	at := machinesOf(r.status(), provider.ControlPlane)[0].Address
	c := testkit.Value(tls.Dial("tcp", at+":6443", &tls.Config{InsecureSkipVerify: true}))(r.t)
	defer c.Close()
	sum := sha256.Sum256(c.ConnectionState().PeerCertificates[0].Raw)
	return hex.EncodeToString(sum[:])
}

// lastingPods is restarts without the short-lived pods of a smoke test.
func (r *rig) lastingPods() map[string]string {
	all := r.restarts()
	maps.DeleteFunc(all, func(pod, _ string) bool { return strings.HasPrefix(pod, "naupegos-smoke/") })
	return all
}
