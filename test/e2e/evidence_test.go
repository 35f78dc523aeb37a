//go:build e2e

package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// saving returns a function that writes files about a failed test into .evidence/TEST/PART/ at the top of the work tree.
func saving(t testing.TB, part string) (save func(name, text string)) {
	t.Helper()
	dir := filepath.Join("..", "..", ".evidence", strings.ReplaceAll(t.Name(), "/", "_"), part)
	t.Logf("evidence is in %s", dir)
	return func(name, text string) {
		err := os.MkdirAll(dir, 0o755)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644)
		}
		if err != nil {
			t.Error(err)
		}
	}
}

// evidence collects information about a failed test before the cluster is removed: the journal of runs, the status, and the machines' consoles,
// journals and pods' logs, into .evidence/TEST/CLUSTER/ at the top of the work tree.
func (r *rig) evidence() {
	if r.record() == nil {
		return
	}
	save := saving(r.t, r.name)
	ask := func(file string, args ...string) {
		inv := invocation{timeout: 45 * time.Second, env: r.site.env()}
		save(file, naupegos(r.t, inv, append([]string{"--state-dir", r.state}, args...)...).String())
	}
	ask("history.txt", "history", r.name)
	ask("last.json", "history", r.name, "last", "-o", "json")
	ask("status.txt", "status", r.name)
	r.site.evidence(r, save)
	for machine, text := range r.consoles() {
		save(machine+".console.log", text)
	}
	for _, m := range r.status().Machines {
		ask(m.Name+".journal.txt", "ssh", r.name, m.Name, "--", asRoot("journalctl --no-pager -n 20000"))
		ask(m.Name+".pods.txt", "ssh", r.name, m.Name, "--", asRoot("tail -n 5000 /var/log/pods/*/*/*.log"))
	}
}

// asRoot returns a shell command that runs another one as root; the login user of a host may be another user.
func asRoot(command string) string {
	return `if [ "$(id -u)" = 0 ]; then ` + command + `; else sudo -n sh -c '` + command + `'; fi`
}
