//go:build integration

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/naupegos/naupegos/internal/release"
	"github.com/naupegos/naupegos/internal/release/flags"
)

// TestTablesAgainstBundles: for every release that has a bundle in the local library, the table matches the bundle's programs, and the programs
// refuse flags that the table calls wrong.
func TestTablesAgainstBundles(t *testing.T) {
	compared := 0
	for _, minor := range release.Minors() {
		table, ok := flags.Of(minor)
		if !ok {
			t.Errorf("%s has no table", minor)
			continue
		}
		t.Run(table.Release, func(t *testing.T) {
			dir := t.TempDir()
			if err := unpack(t.Context(), table.Release, dir); errors.Is(err, errNoBundle) {
				t.Skip(err)
			} else if err != nil {
				t.Fatal(err)
			}
			got, err := tableText(t.Context(), table.Release, dir)
			if err != nil {
				t.Fatal(err)
			}
			want, err := os.ReadFile("../../internal/release/flags/tables/" + minor + ".txt")
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), string(got)); d != "" {
				t.Errorf("the table differs from the programs (-table +programs); go run ./hack/flags %s:\n%s", table.Release, d)
			}
			for program, wrong := range map[string]string{
				flags.APIServer: "--event-ttl=soon", flags.ControllerManager: "--concurrent-deployment-syncs=many", flags.Scheduler: "--no-such-flag=1",
				flags.Kubelet: "--no-such-flag=1", flags.Etcd: "--heartbeat-interval=often",
			} {
				if out, err := exec.CommandContext(t.Context(), filepath.Join(dir, program), wrong, "--version").CombinedOutput(); err == nil {
					t.Errorf("%s takes %s: %s", program, wrong, out)
				}
			}
			for _, program := range []string{flags.APIServer, flags.Scheduler, flags.Kubelet} { // the programs know these gates, too
				out, err := exec.CommandContext(t.Context(), filepath.Join(dir, program), "--feature-gates=GracefulNodeShutdown=false").CombinedOutput()
				if err == nil || !strings.Contains(string(out), "depends on features that are disabled: [GracefulNodeShutdown]") {
					t.Errorf("%s without GracefulNodeShutdown: %v: %s", program, err, out)
				}
			}
			compared++
		})
	}
	if compared == 0 {
		t.Skip("the library has no bundle to compare with")
	}
}
