package bundle

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/bundle/catalogue"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/release"
)

func TestRecipes(t *testing.T) {
	for _, rel := range release.All() {
		r := recipe{Release: rel}
		all := r.components()
		for _, s := range addonSets() {
			all = append(all, s.compiled(r)...)
		}
		for _, c := range all {
			files, err := c.files()
			if err != nil {
				t.Errorf("%s: %v", r.Kubernetes, err)
				continue
			}
			if want := c.module + " " + c.version; c.module != "" && !strings.Contains(string(files["go.mod"]), want) {
				t.Errorf("%s: the lock file of %s does not require %s", r.Kubernetes, c.name, want)
			}
			for name := range files {
				if strings.HasSuffix(name, "_test.go") || strings.Contains(name, ".lock") || strings.HasSuffix(name, ".txt") {
					t.Errorf("%s: %s would be compiled into the component", c.name, name)
				}
			}
		}
	}
}

func TestReleaseWithoutRecipe(t *testing.T) {
	_, err := newLibrary(t).Build(context.Background(), BuildOptions{Kubernetes: "v1.2.3"})
	wantKind(t, err, fail.Invalid, "v1.2.3", release.Default)
}

func TestBuildWithoutGo(t *testing.T) {
	_, err := newLibrary(t).Build(context.Background(), BuildOptions{Kubernetes: release.Default, Go: "/nonexistent/go"})
	wantKind(t, err, fail.Refused, "install Go", "bundle import")
}

func TestLinkerStamps(t *testing.T) {
	ld := recipe{Release: release.Release{Kubernetes: "v1.36.3"}}.kubernetes().ldflags
	for _, want := range []string{"component-base/version.gitVersion=v1.36.3", "client-go/pkg/version.gitMajor=1", "component-base/version.gitMinor=36", "buildDate=1970-01-01T00:00:00Z"} {
		if !strings.Contains(ld, want) {
			t.Errorf("%q is missing from %s", want, ld)
		}
	}
}

func TestBuiltName(t *testing.T) {
	for pkg, want := range map[string]string{
		"go.etcd.io/etcd/server/v3": "server", "go.etcd.io/etcd/etcdctl/v3": "etcdctl", "k8s.io/kubernetes/cmd/kubelet": "kubelet",
		".": "coredns", "./pause": "pause", "github.com/x/plugins/ipam/host-local": "host-local", "example.org/cmd/vault": "vault",
	} {
		if got := (component{name: "coredns"}).builtName(target{"", pkg}); got != want {
			t.Errorf("%s: %s, want %s", pkg, got, want)
		}
	}
}

func TestDerivation(t *testing.T) {
	d := &catalogue.Derivation{File: "main.go", Drop: []string{"backend/tencentvpc", "backend/udp"}}
	src := "package main\n\nimport (\n\t_ \"x/backend/udp\"\n\t_ \"x/backend/tencentvpc\"\n\t_ \"x/backend/vxlan\"\n)\n"
	got, err := derived(d, []byte(src))
	if want := "package main\n\nimport (\n\t_ \"x/backend/vxlan\"\n)\n"; err != nil || string(got) != want {
		t.Errorf("got %q, %v", got, err)
	}
	for _, bad := range []string{"", strings.Replace(src, "udp", "tcp", 1), src + "\t_ \"y/backend/udp\"\n"} {
		if _, err := derived(d, []byte(bad)); err == nil {
			t.Errorf("accepted %q", bad)
		}
	}
}

func TestCommandFailuresAreExplained(t *testing.T) {
	for said, want := range map[string]struct {
		kind fail.Kind
		hint string
	}{
		"write /x: no space left on device":                    {fail.Refused, "free space"},
		"verifying m: checksum mismatch\nSECURITY ERROR":       {fail.Refused, "do not use it"},
		"dial tcp: lookup proxy: no such host":                 {fail.Unreachable, "GOPROXY"},
		"go.mod requires go >= 1.30 (running go 1.26)":         {fail.Refused, "newer Go"},
		"main.go:3:1: syntax error: something quite different": {fail.Internal, ""},
	} {
		err := explain(errors.New("exit status 1"), "go", []string{"build", "-v", "secret"}, strings.Split(said, "\n"))
		wantKind(t, err, want.kind, want.hint, said, "run go build -v")
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("all arguments are shown: %v", err)
		}
	}
}

func TestConflistIsTheInstalledOne(t *testing.T) {
	if got := string(FlannelConflist()); !strings.Contains(got, `"name": "cbr0"`) || !strings.Contains(got, `"type": "portmap"`) {
		t.Errorf("conflist: %s", got)
	}
}
