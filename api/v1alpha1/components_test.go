package v1alpha1_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/release"
	"github.com/naupegos/naupegos/internal/release/flags"
)

// programPaths holds the document path of each program's settings.
var programPaths = map[string]string{
	flags.APIServer: "spec.kubernetes.apiServer", flags.ControllerManager: "spec.kubernetes.controllerManager",
	flags.Scheduler: "spec.kubernetes.scheduler", flags.Kubelet: "spec.kubernetes.kubelet", flags.Etcd: "spec.etcd",
}

// withFlag returns a document of a release with one flag of a program, in line 9.
func withFlag(version, program, name, value string) string {
	section := strings.Split(programPaths[program], ".")[1:]
	if len(section) == 1 {
		section = []string{"etcd"}
	}
	doc := smallest + "  kubernetes:\n    version: " + version + "\n"
	if program == flags.Etcd {
		return doc + fmt.Sprintf("  etcd: {extraArgs: [{name: %q, value: %q}]}\n", name, value)
	}
	return doc + fmt.Sprintf("    %s: {extraArgs: [{name: %q, value: %q}]}\n", section[1], name, value)
}

// TestRandomWrongFlags: for each release, 200 random wrong flags and values are all refused, and each error names line, column and field.
func TestRandomWrongFlags(t *testing.T) {
	for _, minor := range release.Minors() {
		table, ok := flags.Of(minor)
		if !ok {
			t.Errorf("%s has no table", minor)
			continue
		}
		version := table.Release
		r := rand.New(rand.NewPCG(39, 200))
		programs := slices.DeleteFunc(flags.Programs(), func(p string) bool { return p == flags.KubeProxy })
		for tried := 0; tried < 200; {
			program := programs[r.IntN(len(programs))]
			names := table.Flags(program)
			name, value := names[r.IntN(len(names))], ""
			if r.IntN(2) == 0 {
				name = misspell(r, name)
				if slices.Contains(names, name) {
					continue // it happens to be another flag
				}
			} else {
				f, _ := table.Flag(program, name)
				if value = wrongValue(r, f.Type); value == "" {
					continue
				}
			}
			tried++
			_, err := validation.Parse("f", []byte(withFlag(version, program, name, value)))
			var errs v1alpha1.Errors
			if !errors.As(err, &errs) || len(errs) != 1 {
				t.Errorf("%s %s --%s=%s: %v", minor, program, name, value, err)
				continue
			}
			if e := errs[0]; e.Line != 9 || e.Column < 10 || !strings.HasPrefix(e.Field, programPaths[program]+".extraArgs[0].") {
				t.Errorf("%s %s --%s=%s: %+v", minor, program, name, value, e)
			}
		}
	}
}

// misspell changes a letter, drops one, doubles one or swaps two.
func misspell(r *rand.Rand, name string) string {
	b := []byte(name)
	if len(b) < 3 {
		return name + "x"
	}
	i := r.IntN(len(b) - 1)
	switch r.IntN(4) {
	case 0:
		b[i] = byte('a' + r.IntN(26))
	case 1:
		b = slices.Delete(b, i, i+1)
	case 2:
		b = slices.Insert(b, i, b[i])
	default:
		b[i], b[i+1] = b[i+1], b[i]
	}
	return string(b)
}

// wrongValue returns a value that no flag of the type takes; empty where a flag takes any text.
func wrongValue(r *rand.Rand, typ string) string {
	switch typ {
	case "bool", "int", "int32", "int64", "uint", "float", "float32", "duration", "ip", "quantity", "int32Slice", "mapStringBool", "mapStringString", "stringToString", "portRange":
		return fmt.Sprintf("%c%d..", 'g'+r.IntN(10), r.IntN(100))
	}
	return ""
}

// TestLockedGates: a locked feature gate is refused unless it is set to its locked value.
func TestLockedGates(t *testing.T) {
	for _, minor := range release.Minors() {
		table, _ := flags.Of(minor)
		locked := 0
		for _, name := range table.Gates(flags.Kubelet) {
			g, _ := table.Gate(flags.Kubelet, name)
			if !g.Locked {
				continue
			}
			locked++
			doc := func(value bool) []byte {
				return fmt.Appendf(nil, "%s  kubernetes: {version: %s, kubelet: {featureGates: {%s: %v}}}\n", smallest, table.Release, name, value)
			}
			if _, err := validation.Parse("f", doc(!g.Default)); err == nil || !strings.Contains(err.Error(), "has locked the feature gate") {
				t.Errorf("%s %s: %v", minor, name, err)
			}
			if _, err := validation.Parse("f", doc(g.Default)); err != nil {
				t.Errorf("%s %s: %v", minor, name, err)
			}
		}
		if locked < 20 {
			t.Errorf("%s has only %d locked feature gates", minor, locked)
		}
	}
}

// TestDroppedByNextMinor: a gate that the next release no longer has is refused there, and the error names it.
func TestDroppedByNextMinor(t *testing.T) {
	minors := release.Minors()
	for i, minor := range minors[1:] {
		was, _ := flags.Of(minors[i])
		now, _ := flags.Of(minor)
		dropped := 0
		for _, name := range was.Gates(flags.APIServer) {
			g, _ := was.Gate(flags.APIServer, name)
			if _, still := now.Gate(flags.APIServer, name); still {
				continue
			}
			dropped++
			doc := func(version string) []byte {
				return fmt.Appendf(nil, "%s  kubernetes: {version: %s, apiServer: {featureGates: {%s: %v}}}\n", smallest, version, name, g.Default)
			}
			if _, err := validation.Parse("f", doc(was.Release)); err != nil {
				t.Errorf("%s %s: %v", was.Minor, name, err)
			}
			_, err := validation.Parse("f", doc(now.Release))
			if err == nil || !strings.Contains(err.Error(), "no longer has the feature gate") || !strings.Contains(err.Error(), "remove it") {
				t.Errorf("%s %s: %v", minor, name, err)
			}
		}
		if dropped == 0 {
			t.Errorf("%s has dropped no feature gate", minor)
		}
	}
}

// TestPoolKubelet: a pool's fields override the cluster's, and fields that the pool leaves out keep the cluster's values.
func TestPoolKubelet(t *testing.T) {
	c := mustParse(t, "components.yaml", read(t, "testdata/good/components.yaml"))
	k := c.Spec.Kubernetes.Kubelet.For(c.Spec.Workers[1])
	if k.MaxPods != 250 || k.SystemReserved["cpu"] != "1" || k.SystemReserved["memory"] != "" || k.KubeReserved["cpu"] != "100m" || k.SwapBehavior != "LimitedSwap" {
		t.Errorf("%+v", k)
	}
}

// TestAuditWebhookAuth: the audit webhook's auth names either a credential or a file with an absolute path.
func TestAuditWebhookAuth(t *testing.T) {
	for auth, want := range map[string]string{
		"{}":                                   "auth",
		"{credentialsFile: secret}":            "auth.credentialsFile",
		"{credential: A}":                      "auth.credential",
		"{credentialsFile: /a, credential: b}": "auth.credential",
		"{credentialsFile: /a}":                "",
		"{credential: b}":                      "",
	} {
		_, err := validation.Parse("test", []byte("apiVersion: naupegos.dev/v1alpha1\nkind: Cluster\nmetadata: {name: demo}\nspec:\n  provider: {local: {}}\n  workers: [{name: a}]\n"+
			"  kubernetes: {apiServer: {auditWebhook: {url: 'https://audit.example.org', auth: "+auth+"}}}\n"))
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", auth, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), "spec.kubernetes.apiServer.auditWebhook."+want)):
			t.Errorf("%s: %v, which should name %s", auth, err, want)
		}
	}
}
