package bed

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
)

// Packages are the Debian packages that the bed needs; hack/setup openstack installs the same list.
var Packages = []string{
	"mariadb-server", "rabbitmq-server", "memcached",
	"keystone", "glance-api", "placement-api", "nova-api", "nova-conductor", "nova-scheduler", "nova-compute",
	"neutron-server", "cinder-api", "cinder-scheduler", "cinder-volume", "octavia-api", "octavia-worker",
	"designate-api", "designate-central", "designate-worker", "designate-producer", "designate-mdns", "bind9",
	"python3-pymysql", "python3-sqlalchemy-ext", "python3-memcache", "uwsgi-core", "uwsgi-plugin-python3", "qemu-utils", "haproxy",
}

// checkPlatform returns the versions of the bed's packages, or a one-line error with the reason why the bed can't run on this machine.
func checkPlatform(ctx context.Context) (versions string, err error) {
	if runtime.GOOS != "linux" {
		return "", fail.New(fail.Refused, "the OpenStack test bed runs on Linux only; this is %s", runtime.GOOS)
	}
	if os.Geteuid() != 0 {
		return "", fail.New(fail.Refused, "the OpenStack test bed starts services and needs root").Do("run it as root, or with sudo -E")
	}
	if _, err := exec.LookPath("dpkg-query"); err != nil {
		return "", fail.Wrap(fail.Refused, err, "this is not Debian: there is no dpkg-query").Do("the OpenStack services are taken from Debian 12's packages")
	}
	if id, version := osRelease(); id != "debian" || version != "12" {
		return "", fail.New(fail.Refused, "the OpenStack test bed needs Debian 12 (OpenStack Zed); this is %s %s", id, version)
	}
	// Exit status 1 means that some packages are not installed; the output still lists the others.
	out, err := exec.CommandContext(ctx, "dpkg-query", append([]string{"-W", "-f", "${db:Status-Status} ${Package} ${Version}\n"}, Packages...)...).Output()
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	var missing, have []string
	for line := range strings.Lines(string(out)) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "installed "); ok {
			have = append(have, rest)
		}
	}
	for _, p := range Packages {
		if !slices.ContainsFunc(have, func(h string) bool { return strings.HasPrefix(h, p+" ") }) {
			missing = append(missing, p)
		}
	}
	if len(missing) > 0 {
		return "", fail.New(fail.Refused, "not installed: %s", strings.Join(missing, ", ")).Do("run hack/setup openstack")
	}
	if err != nil {
		return "", fail.Wrap(fail.Internal, err, "ask dpkg for versions")
	}
	slices.Sort(have)
	return strings.Join(have, "\n"), nil
}

func osRelease() (id, version string) {
	f, err := os.Open("/etc/os-release")
	if err != nil {
		return "an unknown system", ""
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		key, value, _ := strings.Cut(s.Text(), "=")
		switch key {
		case "ID":
			id = strings.Trim(value, `"`)
		case "VERSION_ID":
			version = strings.Trim(value, `"`)
		}
	}
	return id, version
}
