package adopt

import (
	"maps"
	"path"
	"slices"
	"strings"
)

// unitFiles are patterns of drop-ins of the units that an apply takes over. systemd merges them with ours.
const unitFiles = "etc/systemd/system/kubelet.service.d/*.conf etc/systemd/system/containerd.service.d/*.conf " +
	"usr/lib/systemd/system/kubelet.service.d/*.conf usr/lib/systemd/system/containerd.service.d/*.conf"

// ourDropIns are names of drop-ins that an apply writes, and that thereby take the place of others of these names.
var ourDropIns = []string{"10-kubeadm.conf", "20-naupegos.conf"}

// dropIns returns the drop-ins of a unit that stay after an apply, in systemd's order: by name, whatever the directory.
func (h Host) dropIns(unit string) (files []string) {
	for _, file := range slices.Sorted(maps.Keys(h.Files)) {
		if path.Base(path.Dir(file)) == unit+".d" && !slices.Contains(ourDropIns, path.Base(file)) {
			files = append(files, file)
		}
	}
	slices.SortStableFunc(files, func(a, b string) int { return strings.Compare(path.Base(a), path.Base(b)) })
	return files
}

// unitSettings returns the values of a setting in a unit's file, in order.
func unitSettings(data []byte, name string) (values []string) {
	text := strings.ReplaceAll(string(data), "\\\n", " ")
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+"="); ok {
			values = append(values, strings.TrimSpace(value))
		}
	}
	return values
}

// units reports drop-ins of the kubelet and containerd that an apply leaves in place. A drop-in with a command of its own would undo the apply.
func (d *drafting) units() {
	for _, h := range d.f.Hosts {
		for _, unit := range []string{"kubelet.service", "containerd.service"} {
			var stay []string
			for _, file := range h.dropIns(unit) {
				commands := slices.DeleteFunc(unitSettings(h.Files[file], "ExecStart"), func(c string) bool { return c == "" })
				overruled := unit == "kubelet.service" && path.Base(file) < ourDropIns[0] // which sets the command, too
				if len(commands) == 0 || overruled {
					stay = append(stay, file)
					continue
				}
				do := "take ExecStart out of it, and run systemctl daemon-reload"
				if unit == "kubelet.service" {
					do = "move its flags to KUBELET_EXTRA_ARGS in " + kubeletExtra + ", take ExecStart out of it, and run systemctl daemon-reload"
				}
				d.block(h.Name, do, "%s has %s started by a command of its own, which an apply would not change", file, unit)
			}
			if len(stay) > 0 {
				d.add(Stays, h.Name, "drop-ins of "+unit+": "+strings.Join(stay, ", "), "")
			}
		}
	}
}

// extraFlags returns KUBELET_EXTRA_ARGS, which our drop-in reads as kubeadm's does: from the packages' file, else from a drop-in's environment.
func (h Host) extraFlags() map[string]string {
	const name = "KUBELET_EXTRA_ARGS="
	if values := unitSettings(h.Files[kubeletExtra], strings.TrimSuffix(name, "=")); len(values) > 0 {
		return argsOf(strings.Fields(strings.Trim(values[len(values)-1], `"'`)))
	}
	var extra map[string]string
	for _, file := range h.dropIns("kubelet.service") {
		for _, value := range unitSettings(h.Files[file], "Environment") {
			if args, ok := strings.CutPrefix(strings.Trim(value, `"'`), name); ok {
				extra = argsOf(strings.Fields(strings.Trim(args, `"'`)))
			}
		}
	}
	return extra
}
