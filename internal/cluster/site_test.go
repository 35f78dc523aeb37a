package cluster

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/cluster/env"
	"github.com/naupegos/naupegos/internal/cluster/site"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/policy"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/testkit"
)

// siteSlots returns one machine of each role.
func siteSlots() []wanted.Slot {
	return []wanted.Slot{
		{Name: "demo-cp-1", Role: provider.ControlPlane, Index: 1}, {Name: "demo-a-1", Role: provider.Worker, Pool: "a", Index: 1}, {Name: "demo-gw-1", Role: provider.Gateway, Index: 1},
	}
}

func fileOf(c machine.Config, path string) *machine.File {
	i := slices.IndexFunc(c.Files, func(f machine.File) bool { return f.Path == path })
	if i < 0 {
		return nil
	}
	return &c.Files[i]
}

// TestDocumentsMayNotReplaceWhatMachinesRun: documents may not set any path or unit that Naupegos itself puts into a machine's configuration.
func TestDocumentsMayNotReplaceWhatMachinesRun(t *testing.T) {
	doc := document(t, 3, 2, 1)
	l := newLab(t, doc).Running(doc)
	testkit.Must(t, l.LoadTarget(t.Context()))
	for _, s := range siteSlots() {
		conf, err := l.Config(t.Context(), s, machine.Facts{CgroupVersion: 2, Interface: "eth0"})
		testkit.Must(t, err)
		var paths []string
		for _, f := range conf.Files {
			paths = append(paths, f.Path)
		}
		for _, b := range conf.Binaries {
			paths = append(paths, b.Path)
		}
		for _, p := range paths {
			with := document(t, 3, 2, 1)
			with.Spec.Machines.Files = []v1alpha1.MachineFile{{Path: p}}
			with.Default()
			if errs := validation.Validate(with); len(errs) != 1 || !strings.Contains(errs.Error(), "is taken") {
				t.Errorf("%s: a document may have the file %s: %v", s.Name, p, errs)
			}
		}
		for _, u := range conf.Units {
			with := document(t, 3, 2, 1)
			with.Spec.Machines.Units = []v1alpha1.MachineUnit{{Name: u.Name}}
			with.Default()
			if errs := validation.Validate(with); len(errs) != 1 {
				t.Errorf("%s: a document may have the unit %s: %v", s.Name, u.Name, errs)
			}
		}
		for key := range conf.Sysctls {
			with := document(t, 3, 2, 1)
			with.Spec.Machines.Sysctls = map[string]string{strings.ReplaceAll(key, ".", "/"): "7"}
			if errs := validation.Validate(with); len(errs) != 1 {
				t.Errorf("%s: a document may set %s: %v", s.Name, key, errs)
			}
		}
	}
}

// TestSiteReachesMachines renders settings, proxy and registries into each role's configuration.
func TestSiteReachesMachines(t *testing.T) {
	credential := filepath.Join(t.TempDir(), "credential")
	testkit.Must(t, os.WriteFile(credential, []byte("me:secret word\n"), 0o600))
	auth := &v1alpha1.BasicAuth{CredentialsFile: credential}
	doc := document(t, 3, 2, 1)
	doc.Spec.Machines = v1alpha1.MachineSettings{Sysctls: map[string]string{"vm.max_map_count": "262144"}, Files: []v1alpha1.MachineFile{{Path: "/etc/motd", Content: "hello\n"}}}
	doc.Spec.Proxy = &v1alpha1.Proxy{HTTPS: "http://proxy.example.org:3128", Auth: auth}
	doc.Spec.Registries = []v1alpha1.Registry{{Host: "docker.io", Mirrors: []v1alpha1.Mirror{{URL: "https://mirror.example.org", Auth: auth}}}}
	l := newLab(t, doc).Running(doc)
	testkit.Must(t, l.LoadTarget(t.Context()))
	for _, s := range siteSlots() {
		conf, err := l.Config(t.Context(), s, machine.Facts{CgroupVersion: 2, Interface: "eth0"})
		testkit.Must(t, err)
		testkit.Must(t, conf.Validate())
		if conf.Sysctls["vm.max_map_count"] != "262144" || fileOf(conf, "/etc/motd") == nil || fileOf(conf, site.NoProxyEnvironment) == nil {
			t.Errorf("%s lacks settings", s.Name)
		}
		if f := fileOf(conf, site.ProxyEnvironment); f == nil || f.Mode != 0o600 || !strings.Contains(string(f.Content), "me:secret%20word@proxy.example.org") {
			t.Errorf("%s: the proxy's file is %+v", s.Name, f)
		}
		hosts := fileOf(conf, site.CertsDir+"/docker.io/hosts.toml")
		if (hosts != nil) != (s.Role != provider.Gateway) || hosts != nil && hosts.Mode != 0o600 {
			t.Errorf("%s: hosts.toml is %+v", s.Name, hosts)
		}
		for _, name := range []string{"containerd.service", "kubelet.service"} {
			i := slices.IndexFunc(conf.Units, func(u machine.Unit) bool { return u.Name == name })
			if (i >= 0) != (s.Role != provider.Gateway) || i >= 0 && !slices.ContainsFunc(conf.Units[i].DropIns, func(d machine.DropIn) bool { return strings.Contains(d.Content, site.ProxyEnvironment) }) {
				t.Errorf("%s: %s does not go through the proxy", s.Name, name)
			}
		}
	}
	inside, err := l.NoProxy(t.Context())
	testkit.Must(t, err)
	for _, want := range []string{".svc", ".cluster.local", "10.244.0.0/16", "10.96.0.0/16", "demo-cp-1", "demo-a-1", "127.0.0.0/8", "169.254.169.254"} {
		if !slices.Contains(inside, want) {
			t.Errorf("noProxy lacks %s: %q", want, inside)
		}
	}
	// If the file is missing, the last known credential is used, but never on a server.
	testkit.Must(t, os.Remove(credential))
	_, err = l.Config(t.Context(), siteSlots()[0], machine.Facts{CgroupVersion: 2, Interface: "eth0"})
	testkit.Must(t, err)
	l.Credentials = env.NewCredentials(policy.Credentials{}, "demo", true)
	if _, err = l.Config(t.Context(), siteSlots()[0], machine.Facts{CgroupVersion: 2, Interface: "eth0"}); fail.KindOf(err) != fail.Refused {
		t.Errorf("a server reads a file that a document names: %v", err)
	}
}

// TestWrongCredentials: wrong credentials are refused, and the error does not show them.
func TestWrongCredentials(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		content string
		mode    os.FileMode
		want    fail.Kind
	}{
		"absent": {"", 0, fail.NotFound}, "open": {"me:secretword", 0o644, fail.Refused}, "no-colon": {"secretword", 0o600, fail.Invalid},
		"no-user": {":secretword", 0o600, fail.Invalid}, "two-lines": {"me:secretword\nme:other\n", 0o600, fail.Invalid},
	} {
		file := filepath.Join(dir, name)
		if c.mode != 0 {
			testkit.Must(t, os.WriteFile(file, []byte(c.content), c.mode))
		}
		doc := document(t, 1, 0, 1)
		doc.Spec.Proxy = &v1alpha1.Proxy{HTTP: "http://proxy.example.org:3128", Auth: &v1alpha1.BasicAuth{CredentialsFile: file}}
		plain := document(t, 1, 0, 1)
		l := newLab(t, plain).Running(plain)
		l.Doc = doc
		err := l.LoadTarget(t.Context())
		if err == nil {
			_, err = l.Config(t.Context(), siteSlots()[1], machine.Facts{CgroupVersion: 2, Interface: "eth0"})
		}
		if fail.KindOf(err) != c.want || strings.Contains(err.Error(), "secretword") {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}
