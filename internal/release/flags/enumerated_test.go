package flags

import (
	"strings"
	"testing"
)

// TestAmong: a value that a program would refuse at its start is found before. Each flag is one of each release, or of none that a document may have.
func TestAmong(t *testing.T) {
	for _, c := range []struct{ program, flag, value, want string }{
		{APIServer, "audit-log-mode", "foo", "expected batch or blocking or blocking-strict"}, {APIServer, "audit-log-mode", "blocking", ""},
		{APIServer, "tls-min-version", "1.3", "VersionTLS13"}, {Etcd, "tls-min-version", "TLS1.3", ""}, {Etcd, "tls-min-version", "VersionTLS13", "TLS1.3"},
		{Kubelet, "tls-cipher-suites", "TLS_AES_128_GCM_SHA256, TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", ""}, {Kubelet, "tls-cipher-suites", "TLS_AES_128_GCM_SHA256,x", "there is no x"},
		{Scheduler, "logging-format", "yaml", "text or json"}, {KubeProxy, "proxy-mode", "userspace", "nftables"}, {APIServer, "audit-log-path", "anything", ""},
	} {
		if got := Among(c.program, c.flag, c.value); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s --%s=%s: %q, want %q", c.program, c.flag, c.value, got, c.want)
		}
	}
	for program, all := range enumerated {
		for name := range all {
			found := false
			for _, minor := range []string{"1.35", "1.36", "1.37"} {
				table, ok := Of(minor)
				if !ok {
					t.Fatalf("no table of %s", minor)
				}
				f, known := table.Flag(program, name)
				found = found || known
				if known && f.Check("any text") != "" {
					t.Errorf("%s --%s has the type %s", program, name, f.Type)
				}
			}
			if !found {
				t.Errorf("%s has no flag %s", program, name)
			}
		}
	}
}
