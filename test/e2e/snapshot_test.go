//go:build e2e

package e2e_test

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"
	"testing"
)

// snapshot is everything on this host that a cluster could leave behind, one line for each object.
type snapshot map[string]bool

const (
	machineRoot = "/var/lib/naupegos/local" // records and disks of local machines
	hostDir     = "/run/naupegos"           // state that all clusters on this host share
)

// takeSnapshot lists links, mounts of every process's namespace, nftables and iptables, cgroups, files and processes that belong to Naupegos.
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

// counters matches the changing parts of packet filter rules and links.
var counters = regexp.MustCompile(`\[\d+:\d+\]|<[A-Z,_]+>`)

var named = regexp.MustCompile(`nau-?[0-9a-f]{8}|naupegos`)

// ours reports whether a line is about Naupegos.
func ours(line string) bool { return named.MatchString(line) }

// mountOf matches the machine's directory in a line of mountinfo: an overlay's options contain it.
var mountOf = regexp.MustCompile(machineRoot + `/[^/, ]+`)

var zombie = regexp.MustCompile(`\) [ZX] `)

// processes adds the processes of machines, by cgroup, and the mounts in every process's namespace.
func (s snapshot) processes() {
	pids, _ := filepath.Glob("/proc/[0-9]*")
	seen := map[string]bool{}
	for _, p := range pids {
		// Processes end meanwhile: an unreadable one is gone. So is a zombie, which only waits for its parent.
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

// files adds the files under root, down to a depth, whose paths name a cluster.
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

// diff returns the differences, without lines that name a cluster other than id, because other clusters may come and go meanwhile. If no cluster
// is left, nothing at all may differ. If a cluster never got an ID, id is its name and a dash; then every line counts, except lines that name a cluster
// with another name and records on this host.
func (s snapshot) diff(now snapshot, id string) []string {
	short := ""
	if m := ending.FindStringSubmatch(id); m != nil {
		short = m[1]
	}
	others := s.others(id)
	maps.Copy(others, now.others(id))
	foreign := func(line string) bool {
		if short != "" || shared(line) {
			return othersThan(line, short)
		}
		return slices.ContainsFunc(shorts(line), func(c string) bool { return others[c] })
	}
	var out []string
	for line := range now {
		if !s[line] && !foreign(line) {
			out = append(out, "new "+line)
		}
		if short != "" && strings.Contains(line, short) {
			out = append(out, "still there: "+line)
		}
	}
	for line := range s {
		if !now[line] && !shared(line) && !foreign(line) { // shared lines go with the last cluster
			out = append(out, "gone "+line)
		}
	}
	sort.Strings(out)
	return out
}

var ending = regexp.MustCompile(`-([0-9a-f]{8})$`)

// others returns the short IDs of clusters with other names and records on this host.
func (s snapshot) others(id string) map[string]bool {
	out := map[string]bool{}
	for line := range s {
		dir, ok := strings.CutPrefix(line, "file "+machineRoot+"/")
		if m := ending.FindStringSubmatch(dir); ok && m != nil && ending.ReplaceAllString(dir, "-") != ending.ReplaceAllString(id, "-") {
			out[m[1]] = true
		}
	}
	return out
}

// shorts returns the short IDs of the clusters in a line.
func shorts(line string) []string {
	var out []string
	for _, m := range clusterID.FindAllStringSubmatch(line, -1) {
		out = append(out, m[1]+m[2]+m[3])
	}
	return out
}

// shared reports whether a line is about a resource that all clusters share.
func shared(line string) bool {
	for _, path := range []string{hostDir, "/sys/fs/cgroup"} {
		if strings.HasPrefix(line, "file "+path) && !clusterID.MatchString(line) {
			return true
		}
	}
	return false
}

// othersThan reports whether a line names only clusters other than the one with this short ID, or a resource that they share with it.
func othersThan(line, short string) bool {
	if shared(line) {
		return othersLive()
	}
	named := shorts(line)
	return len(named) > 0 && !slices.Contains(named, short)
}

// othersLive reports whether other clusters exist on this host, which keep the shared resources.
func othersLive() bool {
	nets, err := filepath.Glob(filepath.Join(machineRoot, "*", "network.json"))
	return err == nil && len(nets) > 0
}

// stateFiles lists a state directory, without SQLite's temporary files.
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

// TestLeftovers distinguishes a cluster's own leftovers from other clusters' objects.
func TestLeftovers(t *testing.T) {
	record := func(id string) string { return "file " + machineRoot + "/" + id }
	of := func(lines ...string) snapshot {
		s := snapshot{}
		for _, l := range lines {
			s[l] = true
		}
		return s
	}
	const neighbour, mine = "luck-11111111", "fulldisk-22222222"
	was := of(record(neighbour), "link nau11111111 UP")
	for name, c := range map[string]struct {
		now  snapshot
		id   string
		want []string
	}{
		"nothing is left":                          {was, mine, nil},
		"a link is left":                           {of(record(neighbour), "link nau11111111 UP", "link nau22222222 DOWN"), mine, []string{"new link nau22222222 DOWN", "still there: link nau22222222 DOWN"}},
		"a link of one that never got an ID":       {of(record(neighbour), "link nau11111111 UP", "link nau22222222 DOWN"), "fulldisk-", []string{"new link nau22222222 DOWN"}},
		"a record of one that never got an ID":     {of(record(neighbour), "link nau11111111 UP", record(mine)), "fulldisk-", []string{"new " + record(mine)}},
		"another cluster came":                     {of(record(neighbour), "link nau11111111 UP", record("demo-33333333"), "link nau33333333 UP"), "fulldisk-", nil},
		"another cluster went":                     {of(), "fulldisk-", nil},
		"another cluster came, and this has an ID": {of(record(neighbour), "link nau11111111 UP", "link nau33333333 UP"), mine, nil},
	} {
		if got := was.diff(c.now, c.id); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
