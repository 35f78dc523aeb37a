package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/agent"
	"github.com/naupegos/naupegos/internal/cluster/observe"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/plan/delta"
	"github.com/naupegos/naupegos/internal/plan/show"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/testkit"
)

// idle is a Runner on a host whose units all run.
type idle struct{}

func (idle) Run(_ context.Context, _ io.Reader, argv ...string) ([]byte, error) {
	var b strings.Builder
	if i := slices.Index(argv, "--"); i > 1 && argv[1] == "show" {
		for _, unit := range argv[i+1:] {
			fmt.Fprintf(&b, "Id=%s\nLoadState=loaded\nActiveState=active\nUnitFileState=enabled\n\n", unit)
		}
	}
	return []byte(b.String()), nil
}

// foreseen returns the agent's dry run of a configuration on a host on which every file has other content or another mode.
func foreseen(t *testing.T, c machine.Config, found func(machine.File) []byte) *machine.Report {
	t.Helper()
	root := t.TempDir()
	type path struct {
		Kind   string `json:"kind"`
		Secret bool   `json:"secret,omitempty"`
	}
	state := struct {
		Paths map[string]path `json:"paths"`
	}{map[string]path{"/etc/removed.key": {"file", true}}}
	put := func(p string, content []byte) {
		testkit.Must(t, os.MkdirAll(filepath.Dir(root+p), 0o755))
		testkit.Must(t, os.WriteFile(root+p, content, 0o600))
	}
	for _, f := range c.Files {
		state.Paths[f.Path] = path{"file", f.Secret}
		put(f.Path, found(f))
	}
	for k := range c.Sysctls {
		put("/proc/sys/"+strings.ReplaceAll(k, ".", "/"), []byte("7\n"))
	}
	put(machine.StateKey, testkit.Value(json.Marshal(state))(t))
	a := agent.New(agent.Options{Root: root, Runner: idle{}, Owner: func(string) (int, int, error) { return os.Getuid(), os.Getgid(), nil }})
	r := testkit.Value(a.Apply(t.Context(), c, true))(t)
	return &r
}

// secretWords match secrets, which no plan may show.
var secretWords = []*regexp.Regexp{
	regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----\s+([A-Za-z0-9+/]{20,})`),
	regexp.MustCompile(`(?m)client-key-data: (\S{20,})`),
	regexp.MustCompile(`(?m)\b(?:token|secret|password|PrivateKey|PresharedKey)\s*[:=]\s*"?([^\s"]{8,})`),
}

// secretsIn returns the secrets in text.
func secretsIn(text []byte) (all []string) {
	for _, re := range secretWords {
		for _, m := range re.FindAllSubmatch(text, -1) {
			all = append(all, string(m[1][:min(len(m[1]), 40)]))
		}
	}
	return all
}

// TestPlansShowNoSecrets renders every managed file of every kind of machine, foresees its change with the real agent, and requires that no plan shows a private
// key, a token or a password: as text, as a diff, as JSON, and so as a saved plan.
func TestPlansShowNoSecrets(t *testing.T) {
	encrypted := encryptionDocument(t, true)
	service := document(t, 3, 2, 1)
	service.Spec.Etcd.Mode = v1alpha1.EtcdService
	private := wireGuardDoc(t, "10.99.0.0/24", "ann", "ben")
	private.Spec.Workers[0].Labels = map[string]string{"tier": "web"}
	secrets, hunks := 0, 0
	for _, doc := range []*v1alpha1.Cluster{encrypted, service, private} {
		l := newLab(t, doc).Running(doc)
		if doc == private {
			l = wgLab(t, doc)
		}
		if doc == encrypted {
			testkit.Must(t, l.AdvanceEncryption(t.Context()))
		}
		testkit.Must(t, l.LoadTarget(t.Context()))
		want, _ := wanted.Assign(doc, nil, nil)
		for _, s := range want {
			c := testkit.Value(l.configuration(s))(t)
			if s.Role == provider.Gateway {
				if doc == private {
					c = testkit.Value(machine.Merge(c, testkit.Value(l.WireGuardLayer(t.Context(), s.Name))(t)))(t)
				}
			}
			for what, found := range map[string]func(machine.File) []byte{
				"edited":  func(f machine.File) []byte { return append(bytes.Clone(f.Content), "# by hand\n"...) },
				"emptied": func(machine.File) []byte { return nil },
				"same":    func(f machine.File) []byte { return f.Content },
			} {
				seen := &observe.Seen{Machine: provider.Machine{Name: s.Name, State: provider.Running}, Report: foreseen(t, c, found)}
				p := &plan.Plan{Verb: "apply", Cluster: "demo", Steps: []*plan.Step{l.ConfigureStep(s, plan.Change, "it differs", seen)}}
				for _, d := range p.Steps[0].Deltas {
					hunks += len(d.Hunks)
				}
				shown := allOf(t, p)
				for _, f := range c.Files {
					for _, word := range secretsIn(f.Content) {
						secrets++
						if strings.Contains(shown, word) {
							t.Errorf("%s, %s: a plan shows the secret of %s", s.Name, what, f.Path)
						}
					}
				}
				for _, found := range secretsIn([]byte(shown)) {
					t.Errorf("%s, %s: a plan shows %.8s…", s.Name, what, found)
				}
			}
		}
	}
	if secrets < 50 || hunks < 50 {
		t.Errorf("only %d secrets were looked for, and %d hunks were shown", secrets, hunks)
	}
}

// allOf returns a plan in every form in which users see it.
func allOf(t *testing.T, p *plan.Plan) string {
	t.Helper()
	var b bytes.Buffer
	testkit.Must(t, show.WriteText(&b, p, show.Look{Hunks: true}))
	testkit.Must(t, show.WriteDiff(&b, p, show.Look{Hunks: true}))
	b.Write(testkit.Value(json.MarshalIndent(show.JSON(p), "", "  "))(t))
	return b.String()
}

// TestPlanShowsLabelsAndDocument: a plan shows the old and the new value of a removed label and of a changed document field.
func TestPlanShowsLabelsAndDocument(t *testing.T) {
	doc := document(t, 1, 0, 1)
	doc.Spec.Workers[0].Labels = map[string]string{"tier": "web"}
	doc.Spec.Workers[0].Taints = []v1alpha1.Taint{{Key: "only", Value: "x", Effect: "NoSchedule"}}
	l := newLab(t, doc).Running(doc)
	testkit.Must(t, l.LoadTarget(t.Context()))
	o := l.observed(nil, "demo-cp-1")
	n := o.Nodes["demo-a-1"]
	delete(n.Labels, "tier")
	n.Taints = nil
	o.Nodes["demo-a-1"] = n
	steps := testkit.Value(l.steps(o, testkit.Value(l.infrastructure(t.Context(), o))(t)))(t)
	i := slices.IndexFunc(steps, func(s *plan.Step) bool { return s.ID == "node/demo-a-1" })
	if i < 0 {
		t.Fatal("the node is as wanted")
	}
	lines := func(all []delta.Delta) (out []string) {
		for i := range all {
			out = append(out, all[i].Line())
		}
		return out
	}
	if got := lines(steps[i].Deltas); !slices.Equal(got, []string{"label tier: (none) -> web", "taint only:NoSchedule: (none) -> x"}) || strings.Contains(steps[i].Reason, "register") {
		t.Errorf("%q, %s", got, steps[i].Reason)
	}
	l.Record.Document = testkit.Value(document(t, 1, 0, 1).Marshal())(t)
	got := lines(testkit.Value(l.DocumentDeltas())(t))
	if !slices.Contains(got, "spec.workers[a].labels.tier: (none) -> web") {
		t.Errorf("%q", got)
	}
}
