package cluster

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/testkit"
)

// configuration renders a machine's configuration as it is sent to its agent.
func (l *lab) configuration(s wanted.Slot) (machine.Config, error) {
	return l.Config(l.t.Context(), s, machine.Facts{Interface: "eth0", CgroupVersion: 2, Dpkg: true, ResolvConf: "/etc/resolv.conf"})
}

// Configure makes all machines match doc.
func (l *lab) Configure(doc *v1alpha1.Cluster, slots []wanted.Slot) {
	l.t.Helper()
	now := l.Doc
	defer func() { l.Doc = now; l.SetTarget(nil) }()
	l.Doc = doc
	l.SetTarget(slots)
	l.have = map[string]machine.Config{}
	for _, s := range slots {
		l.have[s.Name] = testkit.Value(l.configuration(s))(l.t)
	}
}

// changes returns the changes that an agent would make to a machine with one configuration to reach another.
func changes(have, want machine.Config) []machine.Change {
	old := map[string][]byte{}
	for _, f := range have.Files {
		old[f.Path] = f.Content
	}
	var all []machine.Change
	var paths []string
	for _, f := range want.Files {
		before, there := old[f.Path]
		delete(old, f.Path)
		if there && (f.RenewedAt != "" || bytes.Equal(before, f.Content)) {
			continue
		}
		c := machine.Change{Kind: "file", Name: f.Path, Action: "update", Why: "content differs"}
		if !there {
			c.Action, c.Why = "create", "it is missing"
		}
		all, paths = append(all, c), append(paths, f.Path)
	}
	for path := range old {
		all, paths = append(all, machine.Change{Kind: "file", Name: path, Action: "remove", Why: "it is not wanted any more"}), append(paths, path)
	}
	for _, b := range want.Binaries {
		if !slices.Contains(have.Binaries, b) {
			all, paths = append(all, machine.Change{Kind: "binary", Name: b.Path, Action: "update", Why: "another one is wanted"}), append(paths, b.Path)
		}
	}
	for _, i := range want.Images {
		if !slices.ContainsFunc(have.Images, func(h machine.Image) bool { return h.ID == i.ID }) {
			all = append(all, machine.Change{Kind: "image", Name: i.Refs[0], Action: "create"})
		}
	}
	for _, u := range want.Units {
		watched := func(path string) bool {
			return slices.ContainsFunc(u.Watches, func(w string) bool { return path == w || strings.HasPrefix(path, w+"/") })
		}
		if !slices.ContainsFunc(paths, watched) {
			continue
		}
		action := "restart"
		if u.Reload {
			action = "reload"
		}
		all = append(all, machine.Change{Kind: "unit", Name: u.Name, Action: action, Why: "a file that it reads changes"})
	}
	slices.SortStableFunc(all, func(a, b machine.Change) int { return strings.Compare(a.Kind+a.Name, b.Kind+b.Name) })
	return all
}

// TestEditsOfALivingCluster changes the document of a running cluster: only machines whose configuration depends on the change are touched.
func TestEditsOfALivingCluster(t *testing.T) {
	for _, c := range []struct {
		name           string
		edit           func(s *v1alpha1.Spec)
		touched, still string // a machine whose configuration changes, and one whose does not
	}{
		{"audit log", func(s *v1alpha1.Spec) { off := false; s.Security.AuditLog.Enabled = &off }, "demo-cp-1", "demo-a-1"},
		{"port of the API", func(s *v1alpha1.Spec) { s.Endpoint.Port = 7443 }, "demo-gw-1", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			before, after := document(t, 3, 2, 1), document(t, 3, 2, 1)
			c.edit(&after.Spec)
			l := newLab(t, after).Running(before)
			got := l.mustPlan(l.observed(nil, controlPlanes(3)...))
			if !strings.Contains(got, "configure/"+c.touched) {
				t.Errorf("%s is not configured:\n%s", c.touched, got)
			}
			if c.still != "" && strings.Contains(got, "configure/"+c.still) {
				t.Errorf("%s is configured:\n%s", c.still, got)
			}
			t.Log(got)
		})
	}
}
