//go:build e2e

package e2e_test

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"testing"
)

// snapshot is everything on this host that a cluster could leave behind, one line a thing.
type snapshot map[string]bool

const (
	machineRoot = "/var/lib/naupegos/local" // where local machines' records and disks lie
	hostDir     = "/run/naupegos"           // what is one for all clusters on this host
)

// takeSnapshot looks at links, mounts of every process's name space, nftables and iptables, cgroups, files and processes
// that have to do with Naupegos.
func takeSnapshot(t testing.TB) snapshot {
	t.Helper()
	s := snapshot{}
	for kind, argv := range map[string][]string{
		"link": {"ip", "-o", "-br", "link"}, "route": {"ip", "-4", "route"}, "nft table": {"nft", "list", "tables"}, "iptables": {"iptables-save"},
		"namespace": {"ip", "netns", "list"},
	} {
		out, err := exec.Command(argv[0], argv[1:]...).Output()
		if err != nil {
			if _, found := exec.LookPath(argv[0]); found != nil && kind == "iptables" {
				continue // a host without iptables has no such rules
			}
			t.Fatalf("%v: %v", argv, err)
		}
		for line := range strings.Lines(string(out)) {
			if ours(line) {
				s[kind+" "+strings.TrimSpace(counters.ReplaceAllString(line, ""))] = true
			}
		}
	}
	s.processes()
	s.files(t, machineRoot, 1)
	s.files(t, "/sys/fs/cgroup", 3)
	s.files(t, "/run", 3)
	s.files(t, "/etc/systemd", 3)
	return s
}

// counters are what changes all the time in lists of rules and links.
var counters = regexp.MustCompile(`\[\d+:\d+\]|<[A-Z,_]+>`)

var named = regexp.MustCompile(`nau-?[0-9a-f]{8}|naupegos`)

// ours tells whether a line speaks of anything of Naupegos.
func ours(line string) bool { return named.MatchString(line) }

// mountOf finds whose mount a line of mountinfo tells of: an overlay's options name its directories.
var mountOf = regexp.MustCompile(machineRoot + `/[^/, ]+`)

var zombie = regexp.MustCompile(`\) [ZX] `)

// processes notes processes of machines, by the cgroup they are in, and mounts in every process's name space.
func (s snapshot) processes() {
	pids, _ := filepath.Glob("/proc/[0-9]*")
	seen := map[string]bool{}
	for _, p := range pids {
		// Processes end while we look: what can't be read is gone. So is a zombie, which only waits for its parent.
		if stat, err := os.ReadFile(p + "/stat"); err != nil || zombie.Match(stat) {
			continue
		}
		groups, _ := os.ReadFile(p + "/cgroup")
		cmd, _ := os.ReadFile(p + "/cmdline")
		line := strings.ReplaceAll(string(cmd), "\x00", " ")
		for g := range strings.Lines(string(groups)) {
			if strings.Contains(g, "/naupegos/") {
				s["process in "+strings.TrimSpace(g[strings.Index(g, "/naupegos/"):])+": "+line] = true
				break
			}
		}
		if strings.Contains(line, "local-machine "+machineRoot) || strings.Contains(line, "systemd-nspawn") {
			s["process "+line] = true
		}
		ns, err := os.Readlink(p + "/ns/mnt")
		if err != nil || seen[ns] {
			continue
		}
		seen[ns] = true
		mounts, _ := os.ReadFile(p + "/mountinfo")
		for m := range strings.Lines(string(mounts)) {
			f := strings.Fields(m)
			if owner := mountOf.FindString(m); len(f) > 4 && owner != "" {
				s["mount of "+owner+" on "+f[4]] = true
			}
		}
	}
}

// files notes what lies under root down to a depth, if its path names a cluster.
func (s snapshot) files(t testing.TB, root string, depth int) {
	base := strings.Count(root, "/")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // it went while we looked
		}
		if path != root && (root == machineRoot || clusterID.MatchString(path)) {
			s["file "+path] = true
		}
		if d.IsDir() && strings.Count(path, "/")-base >= depth {
			return filepath.SkipDir
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

var clusterID = regexp.MustCompile(`nau-?([0-9a-f]{8})|naupegos_(?:os_)?([0-9a-f]{8})|-([0-9a-f]{8})\b`)

// diff says what differs, leaving out what names another cluster than id: others may come and go meanwhile.
// Where no cluster is left, nothing at all may be.
func (s snapshot) diff(now snapshot, id string) []string {
	short := ""
	if len(id) > 8 {
		short = id[len(id)-8:]
	}
	var out []string
	for line := range now {
		if !s[line] && !othersThan(line, short) {
			out = append(out, "new "+line)
		}
		if short != "" && strings.Contains(line, short) {
			out = append(out, "still there: "+line)
		}
	}
	for line := range s {
		if !now[line] && !shared(line) && !othersThan(line, short) { // what is shared goes with the last cluster
			out = append(out, "gone "+line)
		}
	}
	sort.Strings(out)
	return out
}

// shared tells whether a line speaks of what all clusters share.
func shared(line string) bool {
	for _, path := range []string{hostDir, "/sys/fs/cgroup"} {
		if strings.HasPrefix(line, "file "+path) && !clusterID.MatchString(line) {
			return true
		}
	}
	return false
}

// othersThan tells whether a line names a cluster, but not the one with this short ID, or what others share with it.
func othersThan(line, short string) bool {
	if shared(line) {
		return othersLive()
	}
	for _, m := range clusterID.FindAllStringSubmatch(line, -1) {
		if m[1]+m[2]+m[3] == short {
			return false
		}
	}
	return clusterID.MatchString(line)
}

// othersLive tells whether clusters of others are on this host, which keep what all share.
func othersLive() bool {
	nets, err := filepath.Glob(filepath.Join(machineRoot, "*", "network.json"))
	return err == nil && len(nets) > 0
}

// stateFiles lists a state directory, without what SQLite keeps beside its file while it is open.
func stateFiles(t testing.TB, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), "-wal") && !strings.HasSuffix(e.Name(), "-shm") {
			names = append(names, fmt.Sprintf("%s %v", e.Name(), e.Type()))
		}
	}
	return strings.Join(names, "\n")
}
