package site

import (
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/machine"
)

// TestWatches: a unit restarts for the files that it names as a whole, and for those of restartOn.
func TestWatches(t *testing.T) {
	s := v1alpha1.MachineSettings{
		Files: []v1alpha1.MachineFile{{Path: "/etc/a"}, {Path: "/etc/a.conf"}, {Path: "/etc/multipath.conf"}},
		Units: []v1alpha1.MachineUnit{
			{Name: "short.service", Content: "[Service]\nExecStart=/bin/x --config=/etc/a\n"}, {Name: "long.service", Content: "[Service]\nExecStart=/bin/x /etc/a.conf\n"},
			{Name: "sentence.service", Content: "[Unit]\nDescription=Reads /etc/a.\n"}, {Name: "deeper.service", Content: "[Service]\nExecStart=/srv/etc/a /etc/a/b\n"},
			{Name: "multipathd.service", RestartOn: []string{"/etc/multipath.conf"}}, {Name: "both.service", Content: "EnvironmentFile=-/etc/a", RestartOn: []string{"/etc/a"}},
		},
	}
	want := map[string][]string{
		"short.service": {"/etc/a"}, "long.service": {"/etc/a.conf"}, "sentence.service": {"/etc/a"}, "deeper.service": nil, "multipathd.service": {"/etc/multipath.conf"}, "both.service": {"/etc/a"},
	}
	for _, u := range Settings(s, machine.Facts{}).Units {
		if !slices.Equal(u.Watches, want[u.Name]) {
			t.Errorf("%s watches %q, want %q", u.Name, u.Watches, want[u.Name])
		}
	}
}

// TestChrony: time servers of the document are chrony's only ones. A file of the document stays.
func TestChrony(t *testing.T) {
	s := v1alpha1.MachineSettings{NTP: v1alpha1.NTP{Servers: []string{"192.0.2.1", "ntp.example.org"}}}
	files := func() (out map[string]string) {
		out = map[string]string{}
		for _, f := range Settings(s, machine.Facts{}).Files {
			if out[f.Path] != "" {
				t.Errorf("%s is there twice", f.Path)
			}
			out[f.Path] = string(f.Content)
		}
		return out
	}
	all := files()
	for _, source := range []string{"pool ", "server ", "sourcedir /run"} {
		if strings.Contains(all[chronyPath], source) {
			t.Errorf("chrony asks others:\n%s", all[chronyPath])
		}
	}
	if !strings.Contains(all[chronyPath], "sourcedir /etc/chrony/sources.d\n") || all["/etc/chrony/sources.d/naupegos.sources"] != "server 192.0.2.1 iburst\nserver ntp.example.org iburst\n" {
		t.Errorf("%q", all)
	}
	s.Files = []v1alpha1.MachineFile{{Path: chronyPath, Content: "mine"}}
	if got := files()[chronyPath]; got != "mine" {
		t.Errorf("the document's own file: %q", got)
	}
}

// TestDirect: of the servers that API servers ask, those outside are named.
func TestDirect(t *testing.T) {
	doc := &v1alpha1.Cluster{}
	doc.Spec.Kubernetes.DNSDomain, doc.Spec.Kubernetes.ServiceCIDR = "cluster.local", "10.96.0.0/12"
	doc.Spec.Kubernetes.APIServer.AuditWebhook = &v1alpha1.AuditWebhook{URL: "https://audit.kube-system.svc/x"}
	doc.Spec.Identity.Issuers = []v1alpha1.IdentityIssuer{{URL: "https://login.example.com/a"}, {URL: "https://login.example.com/b"}, {URL: "https://id.inside.example.org"}}
	doc.Spec.Identity.AuthorizationWebhooks = []v1alpha1.AuthorizationWebhook{{URL: "https://10.96.0.9:8443/"}, {URL: "https://192.0.2.7:8443/"}}
	if got := Direct(doc); got != nil {
		t.Errorf("without a proxy: %q", got)
	}
	doc.Spec.Proxy = &v1alpha1.Proxy{HTTPS: "http://proxy.example.org:3128", NoProxy: []string{".inside.example.org"}}
	if got := Direct(doc); !slices.Equal(got, []string{"login.example.com", "192.0.2.7:8443"}) {
		t.Errorf("%q", got)
	}
}
