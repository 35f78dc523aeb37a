//go:build integration

package hack_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/rootfs"
	"github.com/naupegos/naupegos/internal/testkit"
)

// inside is a check that runs in the Debian system, in which systemd is process 1. It ends with "passed".
const inside = `#!/bin/bash
set -eux
for i in $(seq 240); do curl -sf --max-time 5 http://127.0.0.1:8080/healthz >/health && break; sleep 0.5; done
grep -q '"global":true' /health
main=$(systemctl show --value -p MainPID naupegos-server)
front=$(cat /proc/$main/task/*/children | tr -d " \n")
user=$(id -u naupegos)
for p in $main $front; do
  [ "$(stat -c %u /proc/$p)" = "$user" ] || [ "$(awk '/^Uid/ {print $2}' /proc/$p/status)" = "$user" ]
  grep -q '^NoNewPrivs:.1' /proc/$p/status
  grep -q '^Seccomp:.2' /proc/$p/status
done
grep -q '^CapEff:.0000000000000000' /proc/$front/status
grep -q '^CapAmb:.0000000000000000' /proc/$front/status
! journalctl -u naupegos-server | grep 'is not shut in' || exit 1
# the state of a server that was root's came to its user, and nothing beside it
[ "$(stat -c %U /var/lib/naupegos/server/identity.age)" = naupegos ]
[ "$(stat -c %U /var/lib/naupegos/server/boot/assets/kernel)" = naupegos ]
[ "$(stat -c %U /var/lib/naupegos/local/disk)" = root ]
[ "$(curl -sf http://127.0.0.1:8080/assets/kernel)" = kernel ]
[ "$(curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:8080/assets/shadow)" = 404 ]
# the server works: a token, a machine that is discovered, the front process killed
runuser -u naupegos -- naupegos server token create ann --role admin --state-dir /var/lib/naupegos/server >/token
curl -sf --data @/discovery.json http://127.0.0.1:8080/discovery
kill -9 $front
for i in $(seq 60); do curl -sf --max-time 5 http://127.0.0.1:8080/healthz && break; sleep 0.5; done
journalctl -u naupegos-server | grep -q 'is started again'
curl -sf --cacert /var/lib/naupegos/server/server-ca.crt -H "Authorization: Bearer $(cat /token)" https://localhost:8443/api/v1/machines | grep -q b7f5f93a
systemctl restart naupegos-server
for i in $(seq 240); do curl -sf --max-time 5 http://127.0.0.1:8080/healthz && break; sleep 0.5; done
systemctl stop naupegos-server
[ "$(systemctl show --value -p Result naupegos-server)" = success ]
systemd-analyze security --offline=true --threshold=40 /lib/systemd/system/naupegos-server.service >/dev/null
echo passed
`

const checkUnit = `[Unit]
After=naupegos-server.service
[Service]
Type=oneshot
ExecStart=/bin/bash /inside
StandardOutput=file:/result
StandardError=file:/result
ExecStopPost=/bin/systemctl --no-block exit
[Install]
WantedBy=multi-user.target
`

const aDiscovery = `{"boot-info": {"uuid": "b7f5f93a-b029-475f-b3a4-479ba198cb81", "mac": "52:54:00:e8:32:51", "random-id": "one"}, 
 "interfaces": [{"name": "eth0", "mac": "52:54:00:e8:32:51", "ipv4": "10.0.0.1", "cidrv4": "10.0.0.1/21", "netmask": 21, "gateway": "", "fqdn": []}],
 "disks": [], "lldp": {"is_file": false, "data": {"interfaces": []}}, "ignition-journal": ["a line"]}`

// TestDebServes installs the package over the state of a server that ran as root, boots the Debian system with systemd as process 1, and checks that
// the server works under its unit: as its user, with its sandbox and its front process.
func TestDebServes(t *testing.T) {
	testkit.OnlyFull(t, "TestUnitIsSandboxed reads the unit, and internal/server/front tests both processes; this one boots a Debian")
	deb := makeDeb(t)
	root := filepath.Join(t.TempDir(), "root")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	testkit.Must(t, rootfs.Debian{Suite: "bookworm", Packages: []string{"systemd", "systemd-sysv", "ca-certificates", "curl", "adduser"}}.Directory(ctx, t.TempDir(), root))
	testkit.Must(t, os.WriteFile(filepath.Join(root, "naupegos.deb"), testkit.Value(os.ReadFile(deb))(t), 0o644))
	bootDeb(ctx, t, root)
}

// bootDeb installs /naupegos.deb in a Debian system and boots it.
func bootDeb(ctx context.Context, t *testing.T, root string) {
	t.Helper()
	for name, text := range map[string]string{
		"inside": inside, "etc/systemd/system/check.service": checkUnit, "discovery.json": aDiscovery,
		"var/lib/naupegos/server/boot/assets/kernel": "kernel", "var/lib/naupegos/server/dhcp-leases": "", "var/lib/naupegos/local/disk": "",
	} {
		path := filepath.Join(root, name)
		testkit.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		testkit.Must(t, os.WriteFile(path, []byte(text), 0o644))
	}
	testkit.Must(t, os.Symlink("/etc/shadow", filepath.Join(root, "var/lib/naupegos/server/boot/assets/shadow")))
	testkit.Must(t, syscall.Mount("proc", filepath.Join(root, "proc"), "proc", 0, ""))
	for _, args := range [][]string{{"dpkg", "--install", "/naupegos.deb"}, {"systemctl", "enable", "naupegos-server", "check"}} {
		if out, err := exec.CommandContext(ctx, "chroot", append([]string{root}, args...)...).CombinedOutput(); err != nil {
			t.Errorf("%q: %v: %s", args, err, out)
		}
	}
	testkit.Must(t, syscall.Unmount(filepath.Join(root, "proc"), syscall.MNT_DETACH))
	// systemd-nspawn 252 itself denies Landlock to its container.
	cmd := exec.CommandContext(ctx, "systemd-nspawn", "--quiet", "--system-call-filter=landlock_create_ruleset landlock_add_rule landlock_restrict_self", "--register=no", "--keep-unit", "--private-network", "--machine", fmt.Sprintf("naupegos-deb-%d", os.Getpid()), "--directory", root, "--boot")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGKILL) }
	said, err := cmd.CombinedOutput()
	result, _ := os.ReadFile(filepath.Join(root, "result")) // if missing, the console says why
	if !strings.HasSuffix(strings.TrimSpace(string(result)), "passed") {
		t.Errorf("the check: %v:\n%s\n%s", err, result, said)
	}
}
