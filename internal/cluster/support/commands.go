package support

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/remote"
)

// logUnits are the units whose journal is collected, by role; the patterns are journalctl's.
func logUnits(r provider.Role) map[string]string {
	units := map[string]string{"naupegos": "naupegos-*", "ssh": "ssh.service"}
	names := []string{"kubelet", "containerd"}
	switch r {
	case provider.Gateway:
		names = []string{"haproxy", "keepalived"}
	case provider.ControlPlane:
		names = append(names, "etcd")
	}
	for _, n := range names {
		units[n] = n + ".service"
	}
	return units
}

// commands are run on a machine for their output, by the name of the file that receives it. None of them shows keys, the
// arguments of processes or the content of /etc/kubernetes.
func commands(r provider.Role, since time.Duration) map[string][]string {
	back := fmt.Sprintf("--since=-%ds", int(since.Seconds()))
	c := map[string][]string{
		"units.txt":          {"systemctl", "list-units", "--all", "--plain", "--no-pager", "--no-legend"},
		"disk.txt":           {"df", "-h"},
		"memory.txt":         {"free", "-m"},
		"addresses.txt":      {"ip", "-details", "address"},
		"routes.txt":         {"ip", "route", "show", "table", "all"},
		"uptime.txt":         {"uptime"},
		"journal/system.log": {"journalctl", "--no-pager", "--output=short-iso", "--priority=warning", back},
	}
	for name, unit := range logUnits(r) {
		c["journal/"+name+".log"] = []string{"journalctl", "--no-pager", "--output=short-iso", "--unit=" + unit, back}
	}
	return c
}

// run returns the end of a command's output on a machine.
func (col *Collection) run(ctx context.Context, h remote.Host, limit int64, argv ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, logCommandTime)
	defer cancel()
	t := &tailBuffer{limit: int(limit)}
	err := col.source.Stream(ctx, h, nil, t, argv...)
	return t.bytes(), err
}

// pods collects the ends of the newest container logs.
func (col *Collection) pods(ctx context.Context, machine string, h remote.Host) {
	const root = "/var/log/pods"
	minutes := max(1, int(col.Options.Since.Minutes()))
	list, err := col.run(ctx, h, col.Options.PerFile, "find", root, "-type", "f", "-name", "*.log", "-mmin", "-"+strconv.Itoa(minutes), "-printf", "%T@ %p\n")
	if err != nil {
		col.Add(machine, "pods", nil, err)
		return
	}
	files := strings.Split(strings.TrimSpace(string(list)), "\n")
	slices.Sort(files)
	slices.Reverse(files) // the newest first: times are of equal length for the next centuries
	for i, line := range files {
		_, file, ok := strings.Cut(line, " ")
		if !ok || path.Clean(file) != file || !strings.HasPrefix(file, root+"/") {
			continue
		}
		if i >= logPods {
			col.Add(machine, "pods", nil, fmt.Errorf("only the newest %d of %d logs of containers were taken", logPods, len(files)))
			return
		}
		text, err := col.run(ctx, h, logPodBytes, "tail", "-c", strconv.Itoa(logPodBytes), file)
		col.Add(machine, "pods"+strings.TrimPrefix(file, root), text, err)
	}
}

// tailBuffer keeps the end of the data that is written to it.
type tailBuffer struct {
	limit int
	data  []byte
	cut   bool
}

// Write implements io.Writer.
func (t *tailBuffer) Write(p []byte) (int, error) {
	t.data = append(t.data, p...)
	if over := len(t.data) - t.limit; over > t.limit { // now and then, not each time
		t.data = append([]byte(nil), t.data[over:]...)
		t.cut = true
	}
	return len(p), nil
}

// bytes returns the last limit bytes, from the beginning of a line on where something was cut off.
func (t *tailBuffer) bytes() []byte {
	data := t.data
	if over := len(data) - t.limit; over > 0 {
		data, t.cut = data[over:], true
	}
	if t.cut {
		if i := strings.IndexByte(string(data), '\n'); i >= 0 {
			data = data[i+1:]
		}
	}
	return data
}
