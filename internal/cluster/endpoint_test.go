package cluster

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestDNSName: users see the API's name, and certificates contain it; Naupegos itself uses the address, because the name's record may not exist
// yet.
func TestDNSName(t *testing.T) {
	l := newLab(t, document(t, 1, 2, 1)).Running(document(t, 1, 2, 1))
	if err := l.LoadTarget(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.PKI.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	server := func() string {
		conf, err := l.Kubeconfig(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(conf), "server: ")
		host, _, _ := strings.Cut(rest, "\n")
		return host
	}
	if got := server(); got != "https://10.0.0.10:6443" {
		t.Errorf("without a name people are told %s", got)
	}
	l.Doc.Spec.Endpoint.DNSName, l.Doc.Spec.Endpoint.Port = "k8s.example.org", 443
	if got := server(); got != "https://k8s.example.org:443" {
		t.Errorf("people are told %s", got)
	}
	if names, err := l.OuterNames(t.Context()); err != nil || !slices.Equal(names, []string{"k8s.example.org"}) {
		t.Errorf("certificates hold %v beside the endpoint: %v", names, err)
	}
	testkit.Must(t, l.Facts.Set(t.Context(), memory.APINames, "localhost,127.0.0.1"))
	if names, err := l.OuterNames(t.Context()); err != nil || !slices.Equal(names, []string{"localhost", "127.0.0.1", "k8s.example.org"}) {
		t.Errorf("with names of an import: %v, %v", names, err)
	}
	testkit.Must(t, l.Facts.Set(t.Context(), memory.APINames, ""))
	own, err := l.Kube(t.Context())
	if err != nil || own.Server() != "https://10.0.0.10:443" {
		t.Errorf("Naupegos goes to %s: %v", own.Server(), err)
	}
}

// fronted is a cloud with a floating IP in front of the API's address; empty: it does not exist yet.
type fronted struct {
	*cloud
	floating string
}

func (f *fronted) PublicVIP(context.Context) (string, error) {
	if f.floating == "" {
		return "", fail.New(fail.NotFound, "no floating IP")
	}
	return f.floating, nil
}

func (f *fronted) Traits() provider.Traits { return provider.Traits{Outside: true} }

// TestFloatingIPChanges: while the API's floating IP is another one than before, or is not there yet, a cluster that is up can be asked
// and its machines compared; one that is not up waits for the address, which its first certificates are to hold.
func TestFloatingIPChanges(t *testing.T) {
	l := newLab(t, document(t, 3, 2, 1)).Running(document(t, 3, 2, 1))
	cloud := &fronted{cloud: l.cloud}
	l.Prov = cloud
	if err := l.LoadTarget(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.PKI.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	inner, err := l.Endpoint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if own, err := l.Kube(t.Context()); err != nil || own.Server() != "https://"+inner {
		t.Errorf("without a floating IP Naupegos can't ask the cluster: %v", err)
	}
	names := func() string {
		t.Helper()
		got, err := l.OuterNames(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(got, " ")
	}
	if got := names(); got != "" {
		t.Errorf("certificates hold %s, which is not there", got)
	}
	cloud.floating = "203.0.113.7"
	if got := names(); got != "203.0.113.7" {
		t.Errorf("certificates hold %q", got)
	}
	l.Doc.Spec.Endpoint.FloatingIP = "203.0.113.9"
	if got := names(); got != "203.0.113.9" {
		t.Errorf("certificates hold %q before the user's own floating IP leads to the API", got)
	}
	cloud.floating, l.Doc.Spec.Endpoint.FloatingIP = "", ""
	if err := l.Facts.Set(t.Context(), memory.Bootstrapped, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := l.OuterNames(t.Context()); fail.KindOf(err) != fail.NotReady {
		t.Errorf("the first certificates do not wait for the address: %v", err)
	}
}
