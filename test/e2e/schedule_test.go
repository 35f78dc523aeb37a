//go:build e2e

package e2e_test

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sets "github.com/naupegos/naupegos/internal/backup"
	"github.com/naupegos/naupegos/internal/cluster/backups"
	"github.com/naupegos/naupegos/internal/testkit"
)

// place is the destination of a cluster's backups.
type place struct {
	sets string // directory on this host where they appear
	spec string // lines of spec.backup
}

// bucket runs an S3 server that this host's machines can reach, until the test ends. program is testkit.S3Server.
func bucket(t *testing.T, program, dir string) place {
	t.Helper()
	c, err := net.Dial("udp", "192.0.2.1:9") // sends nothing
	testkit.Must(t, err)
	host := c.LocalAddr().(*net.UDPAddr).IP.String()
	testkit.Must(t, c.Close())
	data := filepath.Join(dir, "data")
	testkit.Must(t, os.MkdirAll(filepath.Join(data, "demo"), 0o755))
	addr := net.JoinHostPort(host, itoa(testkit.FreePort(t)))
	cmd := exec.Command(program, "--access", "testkey", "--secret", "testsecret", "--port", addr, "posix", data)
	testkit.Must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	until(t, 20*time.Second, 20*time.Millisecond, func() error {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			err = c.Close()
		}
		return err
	})
	credentials := filepath.Join(dir, "credentials")
	testkit.Must(t, os.WriteFile(credentials, []byte("[default]\naws_access_key_id = testkey\naws_secret_access_key = testsecret\n"), 0o600))
	return place{
		sets: filepath.Join(data, "demo", "k8s"),
		spec: fmt.Sprintf("    to: {s3: {endpoint: \"http://%s\", bucket: demo, prefix: k8s, credentialsFile: %s}}\n    schedule: \"* * * * *\"\n    keep: {last: 20}\n", addr, credentials),
	}
}

// directory returns a directory of this host, which stands for one that the machines share: see collect.
func directory(t *testing.T, dir string) place {
	t.Helper()
	at := filepath.Join(dir, "shared")
	testkit.Must(t, os.MkdirAll(at, 0o700))
	return place{sets: at, spec: "    to: {directory: " + at + "}\n    schedule: \"@monthly\"\n    keep: {last: 20}\n"}
}

// listed returns the sets that naupegos backup list shows.
func (r *rig) listed() []sets.Set {
	r.t.Helper()
	var all struct{ Items []sets.Set }
	testkit.Must(r.t, json.Unmarshal([]byte(r.must(0, "backup", "list", r.name, "-o", "json").stdout), &all))
	return all.Items
}

// madeOnSchedule waits until a machine has made a new set, and returns it. It also asserts that no turn of the schedule has produced two sets.
func (r *rig) madeOnSchedule() sets.Set {
	r.t.Helper()
	now, turns := time.Now(), map[string]string{}
	var made sets.Set
	until(r.t, 4*time.Minute, 2*time.Second, func() error {
		for _, s := range r.listed() {
			if s.Reason == "on schedule" && s.CreatedAt.After(now.Add(time.Second)) {
				made = s
				return nil
			}
		}
		return fmt.Errorf("no set is younger than %v: %+v", now, r.status().Backups.Scheduled)
	})
	for _, s := range r.listed() {
		if s.Reason != "on schedule" { // made by hand in between
			continue
		}
		turn := s.CreatedAt.Truncate(time.Minute).String()
		if turns[turn] != "" {
			r.t.Errorf("%s and %s are of one turn", s.ID, turns[turn])
		}
		turns[turn] = s.ID
	}
	return made
}

// madeAtOnce makes a machine create a set now, as its timer would, and copies it to the place on this host.
func (r *rig) madeAtOnce(machine string, at place) sets.Set {
	r.t.Helper()
	if got := r.ssh(machine, "systemctl is-active naupegos-backup.timer; stat -c %a "+at.sets+" 2>&1 || true"); !strings.HasPrefix(got, "active\n") {
		r.t.Errorf("the timer on %s is %s", machine, got)
	}
	r.ssh(machine, "mkdir -p "+at.sets+" && systemctl start naupegos-backup.service && grep -q '^naupegos_backup_failed.* 0$' /var/lib/naupegos/metrics/backup.prom")
	on := r.status().Backups.Scheduled
	if on == nil || on.Last == nil || on.Last.Machine != machine || on.Overdue || on.Failed != nil {
		r.t.Fatalf("status shows %+v", on)
	}
	r.collect(machine, filepath.Join(at.sets, r.name), on)
	for _, s := range r.listed() {
		if s.ID == on.Last.ID {
			return s
		}
	}
	r.t.Fatalf("%s is not listed", on.Last.ID)
	return sets.Set{}
}

// collect copies a set from a machine to the same path on this host.
func (r *rig) collect(machine, dir string, on *backups.Scheduled) {
	r.t.Helper()
	to := filepath.Join(dir, on.Last.ID)
	testkit.Must(r.t, os.MkdirAll(to, 0o700))
	for _, file := range []string{"set.age", "manifest.sig", "manifest.json"} {
		testkit.Must(r.t, os.WriteFile(filepath.Join(to, file), []byte(r.ssh(machine, "cat "+filepath.Join(to, file))), 0o600))
	}
}
