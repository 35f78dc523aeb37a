//go:build e2e

package e2e_test

import (
	"encoding/json"
	"testing"
	"time"

	sets "github.com/naupegos/naupegos/internal/backup"
	"github.com/naupegos/naupegos/internal/release"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestLife takes one highly available cluster through a typical life, under a client that counts failures: an apply that is killed and continued, an
// edit that restarts servers, a lost control-plane machine, an upgrade and the way back, a rotation of all keys, and a backup that is rehearsed and
// restored. It is make test's only local cluster; TestHA and its neighbours test each of these in more ways.
func TestLife(t *testing.T) {
	r := newRig(t, "life")
	at := directory(t, r.dir)
	s := size{controlPlanes: 3, workers: 2, gateways: 2, kubernetes: release.Former(1), extra: "  timeouts: {connect: 30s}\n  backup:\n" + at.spec}
	r.document(s)
	r.killedAt(len(r.planned()), "apply", "-f", r.file, "--yes")
	r.apply()
	r.sameCluster(s)
	l := startLoad(t, r)
	l.flows(t, 5)
	r.live(t, l, []part{
		{"second apply changes nothing", secondApply},
		{"an edit restarts kubelets and servers", editsPrograms},
		{"a control-plane machine dies and is replaced", controlPlaneDies},
		{"an upgrade is taken back", upgradeTakenBack},
		{"authorities and keys are rotated", keysRotate},
	})
	l.end()
	r.live(t, nil, []part{{"a rehearsed backup is restored", func(t *testing.T, r *rig, _ *load) { r.comesBackFrom(t) }}})
	r.destroy()
}

// comesBackFrom rehearses a backup, destroys the cluster, and restores it: every object is unchanged.
func (r *rig) comesBackFrom(t *testing.T) {
	before := r.fill(20)
	var made sets.Set
	testkit.Must(t, json.Unmarshal([]byte(r.must(0, "backup", "create", r.name, "-o", "json").stdout), &made))
	rehearsed := r.must(0, "backup", "rehearse", r.name, made.ID)
	old := r.kubeconfig()
	r.destroy()
	restored := r.must(0, "backup", "restore", r.name, "--from", made.ID, "-f", r.file, "--yes")
	t.Logf("FIGURE rehearsal: %v, restore: %v", rehearsed.took.Round(time.Second), restored.took.Round(time.Second))
	after := r.kept(clientOf(t, old)) // with the old kubeconfig
	for key, digest := range before {
		if after[key] != digest {
			t.Errorf("%s has changed", key)
		}
	}
	r.healthy()
}
