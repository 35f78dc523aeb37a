package ports_test

import (
	"strings"
	"testing"

	"github.com/naupegos/naupegos/api/strict"
	"github.com/naupegos/naupegos/api/v1alpha1/ports"
)

func TestClaim(t *testing.T) {
	for _, c := range []struct {
		name     string
		set      *ports.Set
		protocol string
		port     int
		problem  string // empty: the port is free
	}{
		{"kubelet", ports.Machines(), "tcp", 10250, "port 10250 belongs to kubelet"},
		{"UDP beside kubelet", ports.Machines(), "udp", 10250, ""},
		{"below the node ports", ports.Machines(), "tcp", 29999, ""},
		{"the first node port", ports.Machines(), "tcp", 30000, "port 30000 belongs to Services (node ports)"},
		{"the last node port", ports.Machines(), "tcp", 32767, "port 32767 belongs to Services (node ports)"},
		{"above the node ports", ports.Machines(), "tcp", 32768, ""},
		{"a Service at the first", ports.Services(), "tcp", 30000, ""},
		{"a Service at the last", ports.Services(), "tcp", 32767, ""},
		{"a Service below", ports.Services(), "tcp", 29999, "29999 is no port of Services, which have 30000 to 32767"},
		{"a Service above", ports.Services(), "tcp", 32768, "32768 is no port of Services, which have 30000 to 32767"},
		{"a pod at kubelet's", ports.Pod(), "tcp", 10250, ""},
	} {
		r := strict.New("")
		c.set.Claim(r, "spec.a", c.protocol, c.port, "the first", "take another")
		want := ""
		if c.problem != "" {
			want = "spec.a: " + c.problem + " (take another)"
		}
		if got := said(r); got != want {
			t.Errorf("%s: %q, want %q", c.name, got, want)
		}
		if c.problem != "" {
			continue
		}
		c.set.Claim(r, "spec.b", c.protocol, c.port, "the second", "take another")
		if got := said(r); !strings.Contains(got, "spec.b") || !strings.Contains(got, "belongs to the first") {
			t.Errorf("%s, twice: %q", c.name, got)
		}
	}
}

// said returns the findings as text.
func said(r *strict.Findings) string {
	return r.Sorted().Error()
}
