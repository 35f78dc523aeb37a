package cluster

import (
	"slices"
	"strings"
	"testing"
)

// TestDNSName: people are told the API's name, and certificates hold it; Naupegos itself goes by the address, for the record of the
// name may not be there yet.
func TestDNSName(t *testing.T) {
	l := newLab(t, document(t, 1, 2, 1)).running(document(t, 1, 2, 1))
	if err := l.settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.pki.Ensure(t.Context()); err != nil {
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
	l.doc.Spec.Endpoint.DNSName, l.doc.Spec.Endpoint.Port = "k8s.example.org", 443
	if got := server(); got != "https://k8s.example.org:443" {
		t.Errorf("people are told %s", got)
	}
	if names, err := l.outerNames(t.Context()); err != nil || !slices.Equal(names, []string{"k8s.example.org"}) {
		t.Errorf("certificates hold %v beside the endpoint: %v", names, err)
	}
	own, err := l.Kube(t.Context())
	if err != nil || own.Server() != "https://10.0.0.10:443" {
		t.Errorf("Naupegos goes to %s: %v", own.Server(), err)
	}
}
