package layers

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/provider/local/files"
	"github.com/naupegos/naupegos/internal/provider/local/process"
	"github.com/naupegos/naupegos/internal/rootfs"
)

// Sysctls holds the values that kubelet requires of global kernel settings. A machine sees private files in their place, so that the
// host's settings do not change.
var Sysctls = map[string]string{
	"kernel/keys/root_maxbytes": "25000000",
	"kernel/keys/root_maxkeys":  "1000000",
	"kernel/panic":              "10",
	"kernel/panic_on_oops":      "1",
	"vm/overcommit_memory":      "1",
	"vm/panic_on_oom":           "0",
}

const sysctlDir = "/usr/local/lib/naupegos/sysctl"

// enabled holds the only units started at boot, besides those that systemd's own targets pull in. All others wait
// for the machine's configuration. Keys are paths below /etc/systemd/system, values are link targets.
var enabled = map[string]string{
	"default.target": "/lib/systemd/system/multi-user.target",
	"sysinit.target.wants/cloud-init-local.service":                    "/lib/systemd/system/cloud-init-local.service",
	"sysinit.target.wants/naupegos-prepare.service":                    "../naupegos-prepare.service",
	"multi-user.target.wants/ssh.service":                              "/lib/systemd/system/ssh.service",
	"multi-user.target.wants/systemd-networkd.service":                 "/lib/systemd/system/systemd-networkd.service",
	"sockets.target.wants/systemd-networkd.socket":                     "/lib/systemd/system/systemd-networkd.socket",
	"network-online.target.wants/systemd-networkd-wait-online.service": "/lib/systemd/system/systemd-networkd-wait-online.service",
	"timers.target.wants/naupegos-cloud-final.timer":                   "../naupegos-cloud-final.timer",
	"dbus-org.freedesktop.network1.service":                            "/lib/systemd/system/systemd-networkd.service",
	"sshd.service":                                                     "/lib/systemd/system/ssh.service",
	// a link to /dev/null in a .wants directory cancels that dependency; D-Bus still starts logind on request
	"multi-user.target.wants/systemd-logind.service": "/dev/null",
	"multi-user.target.wants/dbus.service":           "/dev/null",
	"multi-user.target.wants/getty.target":           "/dev/null",
}

// masked lists units that are useless in a container, harm the host, or cost boot time.
var masked = []string{
	"systemd-udevd.service", "systemd-udevd-kernel.socket", "systemd-udevd-control.socket", "systemd-udev-trigger.service",
	"systemd-udev-settle.service", "systemd-sysctl.service", "systemd-modules-load.service", "modprobe@.service",
	"kmod-static-nodes.service", "systemd-firstboot.service", "systemd-machine-id-commit.service", "systemd-random-seed.service",
	"systemd-update-utmp.service", "systemd-update-utmp-runlevel.service", "systemd-pstore.service", "systemd-repart.service",
	"systemd-pcrphase.service", "systemd-pcrphase-sysinit.service", "systemd-binfmt.service", "proc-sys-fs-binfmt_misc.automount",
	"sys-kernel-debug.mount", "sys-kernel-tracing.mount", "sys-kernel-config.mount", "sys-fs-fuse-connections.mount",
	"dev-hugepages.mount", "dev-mqueue.mount", "cryptsetup.target", "veritysetup.target", "integritysetup.target", "remote-fs.target",
	"systemd-ask-password-console.path", "systemd-ask-password-wall.path", "systemd-initctl.socket", "systemd-remount-fs.service",
	"console-getty.service", "getty-static.service", "nftables.service", "ldconfig.service", "systemd-hwdb-update.service",
	"systemd-sysusers.service", "systemd-tmpfiles-setup-dev.service",
	"systemd-journal-catalog-update.service", "systemd-update-done.service", "systemd-journald-audit.socket",
}

// cloudConfig restricts cloud-init to the seed on the disk, and to the modules that machines' user-data needs.
const cloudConfig = `# made by naupegos
datasource_list: [NoCloud]
datasource: {NoCloud: {fs_label: null}}
cloud_init_modules: [bootcmd, write-files, set_hostname, update_hostname, users-groups, ssh]
cloud_config_modules: [set-passwords, runcmd]
cloud_final_modules: [write-files-deferred, scripts-user, final-message]
disable_root: false
ssh_deletekeys: false
ssh_genkeytypes: [ed25519]
system_info:
  network:
    renderers: [networkd]
    activators: [networkd]
output: {all: '>> /var/log/cloud-init-output.log'}
`

// cloudFinal and its timer run cloud-init's later stages after the machine's busiest minutes. With a local data
// source, the first stage has already done everything that user-data usually asks for.
const (
	cloudFinal = `[Unit]
Description=Later stages of cloud-init
Documentation=man:cloud-init(1)
ConditionPathExists=!/run/cloud-init/result.json
[Service]
Type=oneshot
Nice=15
ExecStart=/usr/bin/cloud-init init
ExecStart=/usr/bin/cloud-init modules --mode=config
ExecStart=/usr/bin/cloud-init modules --mode=final
StandardOutput=journal
`
	cloudFinalTimer = `[Unit]
Description=Later stages of cloud-init
[Timer]
OnBootSec=180
RandomizedDelaySec=60
`
)

// baseTweaks returns the changes to a machine's root file system, given the host's cgroup hierarchies.
func baseTweaks(hs []process.Hierarchy) rootfs.Tweaks {
	t := rootfs.Tweaks{
		Remove: []string{"etc/machine-id", "var/lib/dbus/machine-id", "etc/ssh/ssh_host_*", "etc/systemd/system/*.wants", "etc/resolv.conf"},
		Mask:   masked,
		Dirs:   []string{"var/log/journal", "var/lib/naupegos", "etc/systemd/network"},
		Links:  map[string]string{"etc/systemd/system-generators/cloud-init-generator": "/dev/null"},
		Files: map[string]string{
			"etc/machine-id":                                        "uninitialized\n",
			"etc/fstab":                                             "", // that of a disk image names partitions
			"etc/cloud/cloud.cfg.d/90-naupegos.cfg":                 cloudConfig,
			"etc/tmpfiles.d/naupegos.conf":                          "f /run/cloud-init/enabled 0644 root root -\n",
			"etc/ssh/sshd_config.d/10-naupegos.conf":                "PasswordAuthentication no\nKbdInteractiveAuthentication no\nUseDNS no\n",
			"etc/systemd/journald.conf.d/10-naupegos.conf":          "[Journal]\nStorage=persistent\nSystemMaxUse=64M\nForwardToSyslog=no\nReadKMsg=no\nAudit=no\n",
			"etc/systemd/system.conf.d/10-naupegos.conf":            "[Manager]\nDefaultLimitNOFILE=65536:1048576\n",
			"etc/systemd/system/naupegos-prepare.service":           prepareUnit,
			mountTableFile[1:]:                                      mountTable(hs),
			"etc/systemd/system/naupegos-cloud-final.service":       cloudFinal,
			"etc/systemd/system/naupegos-cloud-final.timer":         cloudFinalTimer,
			"etc/systemd/system/cloud-init-local.service.d/10.conf": "[Unit]\nAfter=naupegos-prepare.service\n",
			// drop the check of sshd's configuration: the configuration can't have changed, and the check doubles sshd's start time
			"etc/systemd/system/ssh.service.d/10-naupegos.conf": "[Service]\nExecStartPre=\n",
			// networkd would wait 13 seconds for a router advertisement
			"etc/systemd/network/10-cloud-init-host0.network.d/ra.conf": "[Network]\nIPv6AcceptRA=no\n",
		},
	}
	for path, target := range enabled {
		t.Links["etc/systemd/system/"+path] = target
	}
	for name, value := range Sysctls {
		t.Files[sysctlFile(name)[1:]] = value + "\n"
	}
	return t
}

func sysctlFile(name string) string {
	return filepath.Join(sysctlDir, strings.ReplaceAll(name, "/", "."))
}

// prepareUnit prepares the machine's mounts for containers before anything else starts: it makes them shared and adds mountTable's.
// It also makes cloud-init's directory: cloud-init, which starts later, dies if systemd-tmpfiles makes it while cloud-init checks for it.
const prepareUnit = `[Unit]
Description=Mounts for containers
DefaultDependencies=no
Before=sysinit.target
Conflicts=shutdown.target
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/mkdir -p /run/cloud-init
ExecStart=/bin/mount --make-rshared /
ExecStart=/bin/mount --all --fstab ` + mountTableFile + `
`

const mountTableFile = "/usr/local/lib/naupegos/mounts"

// mountTable renders, as fstab(5), writable remounts of cgroup v1 controllers (systemd-nspawn mounts them read-only, but
// delegates v2 by itself) and bind mounts of private files over global kernel settings.
func mountTable(hs []process.Hierarchy) string {
	var b strings.Builder
	for _, h := range hs {
		if !h.Unified && !h.Systemd {
			fmt.Fprintf(&b, "none %s none remount,bind,rw 0 0\n", h.Mount)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(Sysctls)) {
		fmt.Fprintf(&b, "%s %s/%s none bind 0 0\n", sysctlFile(name), files.ProcSys, name)
	}
	return b.String()
}
