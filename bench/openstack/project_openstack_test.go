//go:build openstack

package main

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/test/openstack/bed"
)

// TestProjectOfTheBench creates the bench's project in the real cloud, checks it, creates an object in it, and removes it.
func TestProjectOfTheBench(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	b, err := bed.Open(bed.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := newProject(ctx, b.CloudsYAML(), bed.AdminCloud, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { //nolint:contextcheck // ctx has ended by then
		if err := p.remove(context.Background()); err != nil { // a second removal must succeed, too
			t.Error(err)
		}
	})
	if info, err := os.Stat(p.file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("clouds.yaml is not readable only by its owner: %v, %v", info.Mode(), err)
	}
	auth, err := readCloud(p.file, cloudName)
	if err != nil || auth != p.auth {
		t.Errorf("clouds.yaml says %q in %q, %v", auth.Project, auth.region, err)
	}
	s, err := login(ctx, auth)
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.read(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.describe(); len(got) != 0 {
		t.Errorf("a new project has in it: %v", got)
	}
	base, err := s.address("network", "v2.0")
	if err != nil {
		t.Fatal(err)
	}
	var made map[string]object
	if _, err := s.call(ctx, "POST", base+"/networks", object{"network": object{"name": "left"}}, &made); err != nil {
		t.Fatal(err)
	}
	if err := p.close(ctx); err == nil || !strings.Contains(err.Error(), "1 network") {
		t.Errorf("a project that holds a network was removed: %v", err)
	}
	if _, err := s.call(ctx, "DELETE", base+"/networks/"+text(made["network"], "id"), nil, nil); err != nil {
		t.Fatal(err)
	}
	if err := p.close(ctx); err != nil {
		t.Error(err)
	}
	if _, err := login(ctx, auth); err == nil {
		t.Error("the project still accepts logins")
	}
}
