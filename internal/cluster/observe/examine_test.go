package observe

import (
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/cluster/connect"
	"github.com/naupegos/naupegos/internal/cluster/env"
	"github.com/naupegos/naupegos/internal/cluster/render"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
)

func TestUnfit(t *testing.T) {
	taken := fail.New(fail.Conflict, "port 10250 is taken").At("demo-a-1")
	o := &Observed{
		Want: []wanted.Slot{{Name: "demo-a-1"}, {Name: "demo-a-2"}, {Name: "demo-a-3"}},
		Machines: map[string]*Seen{
			"demo-a-1": {Err: &unfitError{taken}}, "demo-a-2": {Err: fail.New(fail.Unreachable, "connect")},
			"gone": {Err: &unfitError{fail.New(fail.Conflict, "not asked for")}},
		},
	}
	if err := o.Unfit(); fail.KindOf(err) != fail.Conflict || err.Error() != taken.Error() {
		t.Errorf("got %v", err)
	}
	o.Machines["demo-a-3"] = &Seen{Err: &unfitError{fail.New(fail.Conflict, "port 6443 is taken").At("demo-a-3")}}
	if err := o.Unfit(); fail.KindOf(err) != fail.Conflict || !strings.Contains(err.Error(), "port 10250") || !strings.Contains(err.Error(), "port 6443") || !strings.Contains(err.Error(), "2 machines") {
		t.Errorf("got %v", err)
	}
	delete(o.Machines, "demo-a-1")
	delete(o.Machines, "demo-a-3")
	if err := o.Unfit(); err != nil {
		t.Errorf("an unreachable machine counts as unfit: %v", err)
	}
}

// TestShortOfRoom: a machine without room for the files that it is about to get is named before anything is sent.
func TestShortOfRoom(t *testing.T) {
	next := &bundle.Bundle{Manifest: bundle.Manifest{
		Binaries: []bundle.Artifact{{Name: "kubelet", Digest: "sha256:a", Size: 50 << 20}},
		Images:   []bundle.Image{{Name: "kube-proxy", Archive: bundle.Artifact{Digest: "sha256:b", Size: 30 << 20}}},
	}}
	c := &Observer{Renderer: &render.Renderer{Conn: &connect.Conn{Env: &env.Env{ByRelease: map[string]*bundle.Bundle{"v1.37.2": next}}}}}
	o := &Observed{Machines: map[string]*Seen{}}
	for name, r := range map[string]*machine.Report{
		"narrow":  {Missing: []string{"sha256:a", "sha256:b"}, DiskFree: 239 << 20},
		"roomy":   {Missing: []string{"sha256:a", "sha256:b"}, DiskFree: 240 << 20},
		"laid":    {DiskFree: 1 << 20},
		"unknown": {Missing: []string{"sha256:a"}}, // an older agent does not report it
		"silent":  nil,
	} {
		o.Want, o.Machines[name] = append(o.Want, wanted.Slot{Name: name}), &Seen{Report: r}
	}
	if got, want := c.shortOfRoom(o), "machine narrow has 239 MiB free below /var/lib, and the next release takes up to 240 MiB there"; !slices.Equal(got, []string{want}) {
		t.Errorf("got %q, want %q alone", got, want)
	}
}
