package serving

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/policy"
	"github.com/naupegos/naupegos/internal/server/work"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestUnreadablePolicy: a server whose policy can't be read, or is wrong, does not start, and does not even open its store.
func TestUnreadablePolicy(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		testkit.Must(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	loop := filepath.Join(dir, "loop")
	testkit.Must(t, os.Symlink(loop, loop))
	const head = "apiVersion: naupegos.dev/v1alpha1\nkind: ServerPolicy\n"
	for name, file := range map[string]string{
		"missing": filepath.Join(dir, "nowhere"), "a directory": dir, "a link to itself": loop, "empty": write("empty", ""), "no YAML": write("bytes", "\x00\x01"),
		"of another kind": write("kind", "apiVersion: naupegos.dev/v1alpha1\nkind: Cluster\n"), "a misspelt field": write("field", head+"provider: [metal]\n"),
		"an unknown provider": write("provider", head+"providers: [mainframe]\n"), "cut off": write("cut", head+"clusters: [{names: [\"prod-"),
	} {
		f := &flags{http: "127.0.0.1:0", https: "127.0.0.1:0", logFormat: "text"}
		f.policy.file = file
		h := Host{Err: io.Discard, OpenStore: func(context.Context) (store.Store, error) {
			t.Errorf("%s: the store was opened", name)
			return nil, fail.New(fail.Refused, "no store")
		}}
		testkit.Fails(t, h.serve(t.Context(), f), fail.Invalid, file)
	}
}

// TestStateDirectoryOfOthers: a server does not open a store that others could have replaced.
func TestStateDirectoryOfOthers(t *testing.T) {
	dir := t.TempDir()
	testkit.Must(t, os.Chmod(dir, 0o777))
	opened := false
	h := Host{Err: io.Discard, StateDir: func() (string, error) { return dir, nil }, OpenStore: func(context.Context) (store.Store, error) {
		opened = true
		return nil, fail.New(fail.NotFound, "no store")
	}}
	f := &flags{http: "127.0.0.1:0", https: "127.0.0.1:0", logFormat: "text"}
	testkit.Fails(t, h.serve(t.Context(), f), fail.Refused, dir, "can be changed by all users", "chmod o-w")
	if opened {
		t.Error("the store was opened")
	}
	testkit.Must(t, os.Chmod(dir, 0o700))
	testkit.Fails(t, h.serve(t.Context(), f), fail.NotFound, "no store")
}

// TestWhoMayHaveBundlesBuilt: a missing bundle is made for an operator of all clusters, and for others where the policy allows it; plans that make nothing
// see it all the same.
func TestWhoMayHaveBundlesBuilt(t *testing.T) {
	made := 0
	asked := []string{}
	h := Host{
		Options: func(operate.Asked, work.Need) operate.Options {
			return operate.Options{Bundle: func(context.Context, *v1alpha1.Cluster, string, string) (use, newest *bundle.Bundle, err error) {
				made++
				return nil, nil, nil
			}}
		},
		HasBundle: func(_ context.Context, _ *v1alpha1.Cluster, version, was string) (bool, error) {
			asked = append(asked, was)
			return version == "here", nil
		},
	}
	rules := v1alpha1.DefaultServerPolicy()
	rules.Clusters = []v1alpha1.ClusterPolicy{{Names: []string{"lab"}, Builds: true}}
	h = h.under(policy.New(rules))
	for name, c := range map[string]struct {
		need             work.Need
		cluster, version string
		refused          bool
	}{
		"of all clusters":            {need: work.Need{Prepare: true, Build: true}, cluster: "demo"},
		"a job of theirs":            {need: work.Need{CarryOut: true, Build: true}, cluster: "demo"},
		"of one cluster":             {need: work.Need{Prepare: true}, cluster: "demo", refused: true},
		"a job of theirs, or a duty": {need: work.Need{CarryOut: true}, cluster: "demo", refused: true},
		"allowed":                    {need: work.Need{CarryOut: true}, cluster: "lab"},
		"prepared":                   {need: work.Need{CarryOut: true}, cluster: "demo", version: "here"},
		"only planned":               {cluster: "demo"},
	} {
		doc := &v1alpha1.Cluster{}
		doc.Metadata.Name = c.cluster
		before := made
		_, _, err := h.Options(operate.Asked{}, c.need).Bundle(t.Context(), doc, c.version, "own")
		if c.refused {
			testkit.Fails(t, err, fail.Refused, "builds: true")
		} else if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if (made == before) != c.refused {
			t.Errorf("%s: made %d", name, made-before)
		}
	}
	asked = nil
	_, _, err := h.Options(operate.Asked{NewBundle: true}, work.Need{CarryOut: true}).Bundle(t.Context(), &v1alpha1.Cluster{}, "v1.37.2", "own")
	if err == nil || len(asked) != 1 || asked[0] != "" {
		t.Errorf("a newer bundle than the cluster's is built: %v, %q", err, asked)
	}
}
