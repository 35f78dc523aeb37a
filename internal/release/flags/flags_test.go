package flags

import (
	"regexp"
	"slices"
	"testing"

	"github.com/naupegos/naupegos/internal/release"
)

// TestTables: each supported minor has a table without empty parts, generated from the newest release of the minor.
func TestTables(t *testing.T) {
	for _, minor := range release.Minors() {
		table, ok := Of(minor)
		if !ok {
			t.Errorf("%s has no table: go run ./hack/flags", minor)
			continue
		}
		newest := slices.IndexFunc(release.Versions(), func(v string) bool { return release.MinorOf(v) == minor })
		if want := release.Versions()[newest]; table.Release != want {
			t.Errorf("the table of %s is of %s, not of %s", minor, table.Release, want)
		}
		for _, program := range Programs() {
			if n := len(table.Flags(program)); n < 30 {
				t.Errorf("%s: %s has only %d flags", minor, program, n)
			}
			if n := len(table.Gates(program)); n < 5 {
				t.Errorf("%s: %s has only %d feature gates", minor, program, n)
			}
		}
		for program, least := range map[string]int{Kubelet: 90, KubeProxy: 15, Scheduler: 8} {
			if n := len(table.Fields(program, "")); n < least {
				t.Errorf("%s: the configuration of %s has only %d fields", minor, program, n)
			}
		}
		if len(table.Plugins()) < 30 || len(table.APIs()) < 40 {
			t.Errorf("%s: %d admission plugins, %d versions of APIs", minor, len(table.Plugins()), len(table.APIs()))
		}
		if g, ok := table.Gate(Kubelet, "CPUManagerPolicyOptions"); !ok || !g.Locked && g.Stage == "ga" {
			t.Errorf("%s: %+v", minor, g)
		}
	}
}

// TestInsteadNamesFlags: every flag that extraArgs refuse exists in the program of some supported minor.
func TestInsteadNamesFlags(t *testing.T) {
	had := func(lookup func(Table) bool) bool {
		return slices.ContainsFunc(release.Minors(), func(m string) bool { table, _ := Of(m); return lookup(table) })
	}
	for program, list := range instead {
		for name := range list {
			if !had(func(t Table) bool { _, ok := t.Flag(program, name); return ok }) {
				t.Errorf("%s has no flag %s", program, name)
			}
		}
	}
	for program, list := range insteadOfFields {
		for name := range list {
			if !had(func(t Table) bool { _, ok := t.Field(program, name); return ok }) {
				t.Errorf("the configuration of %s has no field %s", program, name)
			}
		}
	}
}

// TestFilesAreKnown: every flag of a static pod that may name a file is refused, or one whose files Reads finds.
func TestFilesAreKnown(t *testing.T) {
	named := regexp.MustCompile(`(file|cafile|certfile|keyfile|-cert|-key|cacert|kubeconfig|-config|filepath-[a-z]+)$`)
	noFile := []string{"log-outputs", "enable-admission-plugins"}
	for _, minor := range release.Minors() {
		table, _ := Of(minor)
		for _, program := range []string{APIServer, ControllerManager, Scheduler, Etcd} {
			for _, name := range table.Flags(program) {
				f, _ := table.Flag(program, name)
				text := f.Type == "string" || f.Type == "namedCertKey" || f.Type == "stringArray"
				if text && named.MatchString(name) && Instead(program, name) == "" && len(Reads(program, name, "/a/b")) == 0 && !slices.Contains(noFile, name) {
					t.Errorf("%s: --%s of %s names a file", minor, name, program)
				}
			}
		}
	}
	for program, names := range reads {
		for _, name := range names {
			if Instead(program, name) != "" {
				t.Errorf("--%s of %s is refused and has files", name, program)
			}
		}
	}
}

// TestReads: values as people write them.
func TestReads(t *testing.T) {
	for _, c := range []struct {
		flag, value string
		want        []string
	}{
		{"tls-sni-cert-key", "/a/x.crt,/a/x.key:*.example.org,b", []string{"/a/x.crt", "/a/x.key"}},
		{"tls-sni-cert-key", "/a/x.crt,/a/x.key", []string{"/a/x.crt", "/a/x.key"}},
		{"tls-sni-cert-key", "/a/x.crt", []string{"/a/x.crt"}},
		{"token-auth-file", "/a/users.csv", []string{"/a/users.csv"}},
		{"token-auth-file", "", nil},
		{"authorization-always-allow-paths", "/healthz", nil},
		{"v", "/a", nil},
	} {
		if got := Reads(APIServer, c.flag, c.value); !slices.Equal(got, c.want) {
			t.Errorf("%s=%s: %v", c.flag, c.value, got)
		}
	}
	for file, want := range map[string]bool{"/etc/kube-apiserver/x": true, "/etc/sni/x": true, "/etc/x": false, "/x": false, "/srv/x": false, "/usr/local/bin/x": false, "/usr/lib/y/x": false, "/var/lib/x": false, "/var/lib/x/y": true} {
		if mountable(file) != want {
			t.Errorf("%s: %v", file, !want)
		}
	}
	if !sees(APIServer, "/etc/kubernetes/pki/ca.crt") || sees(APIServer, "/etc/kubernetes/pki/mine.crt") || sees(Scheduler, "/etc/ssl/certs/a.pem") || !sees(ControllerManager, "/etc/ssl/certs/a.pem") {
		t.Error("sees")
	}
}

func TestCheck(t *testing.T) {
	for typ, c := range map[string]struct{ good, bad []string }{
		"bool":            {[]string{"true", "false", "1", "T"}, []string{"", "yes", "on", "True!"}},
		"int":             {[]string{"0", "-1", "12"}, []string{"", "1.5", "1k", "ten"}},
		"int32":           {[]string{"2147483647"}, []string{"2147483648"}},
		"uint32":          {[]string{"7"}, []string{"-1"}},
		"float32":         {[]string{"1.5", "3"}, []string{"", "a"}},
		"duration":        {[]string{"30s", "1h5m", "0"}, []string{"", "30", "5 minutes"}},
		"ip":              {[]string{"0.0.0.0", "::1"}, []string{"", "localhost", "10.0.0.1/8"}},
		"quantity":        {[]string{"100m", "1Gi"}, []string{"", "1 GB"}},
		"mapStringBool":   {[]string{"a=true,b=false"}, []string{"a", "a=yes", "=true"}},
		"mapStringString": {[]string{"a=b", ""}, []string{"a", "=b"}},
		"int32Slice":      {[]string{"1,2"}, []string{"1,a"}},
		"portRange":       {[]string{"30000-32767", "30000+10"}, []string{"a-b"}},
		"string":          {[]string{"", "anything"}, nil},
		"strings":         {[]string{"", "a,b"}, nil},
	} {
		for _, v := range c.good {
			if p := (Flag{Type: typ}).Check(v); p != "" {
				t.Errorf("%s refuses %q: %s", typ, v, p)
			}
		}
		for _, v := range c.bad {
			if p := (Flag{Type: typ}).Check(v); p == "" {
				t.Errorf("%s takes %q", typ, v)
			}
		}
	}
}

// TestUnmet: feature gates that need others which are off, by the document or by default.
func TestUnmet(t *testing.T) {
	for _, minor := range release.Minors() {
		table, _ := Of(minor)
		for _, program := range Programs() {
			if got := table.Unmet(program, nil); got != nil {
				t.Errorf("%s: without settings, %s lacks %v", minor, program, got)
			}
			if got := table.Unmet(program, map[string]bool{"GracefulNodeShutdown": false}); (len(got) == 0) != (program == Etcd) {
				t.Errorf("%s: %s: %v", minor, program, got)
			}
			for _, name := range table.Gates(program) {
				g, _ := table.Gate(program, name)
				for _, needs := range g.needs {
					if _, ok := table.Gate(program, needs); !ok {
						t.Errorf("%s: %s needs %s, which %s does not have", minor, name, needs, program)
					}
				}
			}
		}
	}
	table, _ := Of("1.37")
	for _, c := range []struct {
		set  map[string]bool
		want []Unmet
	}{
		{map[string]bool{"DRAFractionalCapacityRange": true}, nil},
		{map[string]bool{"DRAFractionalCapacityRange": true, "DRAConsumableCapacity": false}, []Unmet{{"DRAFractionalCapacityRange", "DRAConsumableCapacity"}}},
		{map[string]bool{"DRAFractionalCapacityRange": true, "AllBeta": false}, []Unmet{{"DRAFractionalCapacityRange", "DRAConsumableCapacity"}}},
		{map[string]bool{"PodGroupPreemptionPolicy": true}, []Unmet{{"PodGroupPreemptionPolicy", "GenericWorkload"}}},
	} {
		if got := table.Unmet(Scheduler, c.set); !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.set, got, c.want)
		}
	}
}
