package layout

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/release"
	"github.com/naupegos/naupegos/internal/testkit"
)

// newestOf returns the newest release of each supported minor, the oldest minor first.
func newestOf(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, v := range release.Versions() {
		if len(out) == 0 || release.MinorOf(out[0]) != release.MinorOf(v) {
			out = append([]string{v}, out...)
		}
	}
	return out
}

// TestGoldenMinors shows the differences between the files of each minor and the previous one, except for versions.
func TestGoldenMinors(t *testing.T) {
	var b strings.Builder
	var before []string
	for _, version := range newestOf(t) {
		p := testParams()
		p.Release = testRelease(version)
		config := render(t, p, testPKI(t, testTime), 0)
		text := string(dump(config))
		for _, i := range p.Release.Bundle.Images {
			text = strings.ReplaceAll(text, i.Ref, i.Name)
		}
		lines := strings.Split(strings.ReplaceAll(text, version, "VERSION"), "\n")
		if before != nil {
			fmt.Fprintf(&b, "%s:\n", release.MinorOf(version))
			missing(&b, "- ", before, lines)
			missing(&b, "+ ", lines, before)
		}
		before = lines
	}
	testkit.Golden(t, "minors.golden", []byte(b.String()))
}

// missing writes the lines of a that are not in b.
func missing(to *strings.Builder, mark string, a, b []string) {
	for _, line := range a {
		if !slices.Contains(b, line) {
			fmt.Fprintln(to, mark+line)
		}
	}
}

// TestMachinesOfTwoReleases: a machine's files are of its own release; records and add-ons are of the cluster's release, whose images a worker has,
// too.
func TestMachinesOfTwoReleases(t *testing.T) {
	versions := newestOf(t)
	old := versions[0]
	p := testParams()
	worker, member := testWorker(p), p.ControlPlanes[1]
	worker.Release, member.Release = testRelease(old), testRelease(old)
	k := testPKI(t, testTime)
	w := testkit.Value(p.Worker(t.Context(), k, worker))(t)
	c := testkit.Value(p.ControlPlane(t.Context(), k, member, p.NewEtcd()))(t)
	first := render(t, p, k, 0)
	ofCluster := func(i machine.Image) bool {
		return strings.Contains(strings.Join(i.Refs, " "), "kube-proxy:"+release.Default)
	}
	if !slices.ContainsFunc(w.Images, ofCluster) {
		t.Errorf("%s lacks images that all nodes of the cluster run: %v", w.Machine, w.Images)
	}
	w.Images = slices.DeleteFunc(w.Images, ofCluster)
	for _, config := range []machine.Config{w, c} {
		text := string(dump(config))
		if strings.Contains(text, release.Default) || !strings.Contains(text, "kube-proxy:"+old) {
			t.Errorf("%s is not of %s alone", config.Machine, old)
		}
	}
	if text := string(dump(first)); strings.Contains(text, old) || !strings.Contains(text, "kube-proxy:"+release.Default) {
		t.Errorf("%s is not of %s alone", first.Machine, release.Default)
	}
	if conf := content(t, c, KubeadmConfigPath); !bytes.Contains(conf, []byte("kubernetesVersion: "+old)) {
		t.Errorf("kubeadm on a machine of %s gets\n%s", old, conf)
	}
	recorded := testkit.Value(p.Recorded())(t)
	p.ControlPlanes[0].Release = testRelease(old)
	if again := testkit.Value(p.Recorded())(t); !bytes.Equal(recorded, again) {
		t.Error("the cluster's records depend on a machine's release")
	}
	worker.Release.Version = "v1.2.3"
	if _, err := p.Worker(t.Context(), k, worker); fail.KindOf(err) != fail.Internal {
		t.Errorf("a machine of v1.2.3: %v", err)
	}
}

// TestFilesAreOfTheContractsVersions: embedded YAML files use versions that every minor reads.
func TestFilesAreOfTheContractsVersions(t *testing.T) {
	for _, version := range release.Versions() {
		wants := testkit.Value(testRelease(version).wants())(t)
		for text, want := range map[string]string{authenticationBase: wants.Configs.APIServer, auditPolicy: wants.Configs.Audit} {
			var doc struct{ APIVersion string }
			testkit.Must(t, yaml.Unmarshal([]byte(text), &doc))
			if doc.APIVersion != want {
				t.Errorf("%s: a file is of %s, not of %s", version, doc.APIVersion, want)
			}
		}
	}
}

// TestInTheMiddleOfAnUpgrade renders machines of a release whose servers already run the next one and emulate this one, and which hold the next
// release's files in advance.
func TestInTheMiddleOfAnUpgrade(t *testing.T) {
	old, next := newestOf(t)[0], newestOf(t)[1]
	p := testParams()
	p.Release = testRelease(old)
	k := testPKI(t, testTime)
	before := render(t, p, k, 0)
	p.Ahead = testRelease(next)
	ahead := render(t, p, k, 0)
	p.Servers = Servers{Release: testRelease(next), Emulates: release.MinorOf(old)}
	soaking := render(t, p, k, 0)

	var changed []string
	for _, f := range ahead.Files {
		if f.RenewedAt != "" {
			continue // each differs
		}
		if !bytes.Equal(f.Content, fileOf(t, before, f.Path).Content) {
			t.Errorf("%s changes by what only lies there", f.Path)
		}
		if after := fileOf(t, soaking, f.Path); !bytes.Equal(f.Content, after.Content) {
			changed = append(changed, f.Path)
			if !strings.Contains(string(after.Content), "--emulated-version=kube="+release.MinorOf(old)+"\n") {
				t.Errorf("%s does not behave as %s", f.Path, release.MinorOf(old))
			}
		}
	}
	if want := []string{manifestOf("kube-apiserver"), manifestOf("kube-controller-manager"), manifestOf("kube-scheduler")}; !slices.Equal(changed, want) {
		t.Errorf("changed are %v, want %v", changed, want)
	}
	for _, name := range []string{"kube-apiserver", "kube-proxy", "etcd"} {
		image := testkit.Value(p.Ahead.image(name))(t)
		if !slices.ContainsFunc(ahead.Images, func(i machine.Image) bool { return slices.Contains(i.Refs, image.Ref) }) {
			t.Errorf("%s is not there ahead of its use", image.Ref)
		}
	}
	kubelet := testkit.Value(p.Ahead.binary("kubelet"))(t)
	if !slices.Contains(ahead.Binaries, machine.Binary{Path: AheadDir + "/kubelet", Digest: kubelet.Digest, Size: kubelet.Size}) {
		t.Error("the next kubelet is not there ahead of its use")
	}
}

func fileOf(t *testing.T, c machine.Config, at string) machine.File {
	t.Helper()
	i := slices.IndexFunc(c.Files, func(f machine.File) bool { return f.Path == at })
	if i < 0 {
		t.Fatalf("there is no %s", at)
	}
	return c.Files[i]
}
