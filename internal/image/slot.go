package image

import (
	"maps"

	"github.com/naupegos/naupegos/internal/rootfs"
)

// slotAgent is the path of the agent that runs as a service. It is a copy, because applied configurations replace the agents below machine.AgentDir.
const slotAgent = "usr/local/lib/naupegos/naupegos-agent"

// slotModules are the modules that slotGrub needs: in GRUB's core for BIOS, and next to GRUB for UEFI.
var slotModules = []string{
	"--prefix=(,gpt15)/EFI/debian", "biosdisk", "part_gpt", "fat", "ext2", "normal", "configfile", "linux", "loadenv", "regexp", "test", "echo", "serial",
	"terminal", "reboot", "gzio", "minicmd", "ls", "cat", "sleep",
}

// slotGrub is the configuration of GRUB for BIOS and for UEFI, on the EFI system partition. GRUB forgets the slot on trial before it boots it, so that
// the next start boots the good slot in any case. If that can't be written, GRUB does not try the slot.
const slotGrub = `# made by naupegos
set timeout=1
set default=0
set fallback=1
if [ "$grub_platform" = pc ]; then
  serial --speed=115200
  terminal_input console serial
  terminal_output console serial
fi
regexp --set=1:disk '^([^,]+),' "$root"
load_env
set slot="$good"
set trial=""
if [ "$try" = a -o "$try" = b ]; then
  set wanted="$try"
  set try=""
  if save_env try; then
    set slot="$wanted"
    set trial="naupegos.trial=1"
  fi
fi
if [ "$slot" = b ]; then
  set other=a
  set part=gpt2
  set id="$b"
  set otherpart=gpt1
  set otherid="$a"
else
  set slot=a
  set other=b
  set part=gpt1
  set id="$a"
  set otherpart=gpt2
  set otherid="$b"
fi
export disk slot trial part id other otherpart otherid
menuentry "naupegos, slot $slot $trial" {
  echo "naupegos: slot $slot $trial"
  linux ($disk,$part)/vmlinuz root=PARTUUID=$id ro naupegos.slot=$slot $trial panic=30 ` + console + `
  initrd ($disk,$part)/initrd.img
}
menuentry "naupegos, slot $other" {
  echo "naupegos: slot $other"
  linux ($disk,$otherpart)/vmlinuz root=PARTUUID=$otherid ro naupegos.slot=$other panic=30 ` + console + `
  initrd ($disk,$otherpart)/initrd.img
}
`

// slotTweaks turn a root file system into a slot's: they add the agent as a service, and end a system on trial that hangs.
func (b *builder) slotTweaks(t rootfs.Tweaks) rootfs.Tweaks {
	units := "etc/systemd/system/"
	t.Files, t.Links = maps.Clone(t.Files), maps.Clone(t.Links)
	delete(t.Files, "etc/grub.d/enable_cloud") // GRUB is outside of both slots
	delete(t.Files, "boot/grub/grub.cfg")
	t.Files["etc/cloud/cloud.cfg.d/90-naupegos.cfg"] = slotCloud
	t.Files[units+"naupegos-agent.service"] = agentUnit
	t.Files[units+"naupegos-trial.timer"] = trialTimer
	t.Files[units+"naupegos-trial.service"] = trialUnit
	t.Files["etc/systemd/system.conf.d/50-naupegos-watchdog.conf"] = "[Manager]\nRuntimeWatchdogSec=60s\nRebootWatchdogSec=5min\n"
	t.Links[units+"multi-user.target.wants/naupegos-agent.service"] = "/etc/systemd/system/naupegos-agent.service"
	t.Links[units+"sysinit.target.wants/naupegos-trial.timer"] = "/etc/systemd/system/naupegos-trial.timer"
	t.Dirs = append(t.Dirs, "var/lib/naupegos-machine", "var/lib/etcd", "var/lib/kubelet")
	return t
}

// slotCloud makes cloud-init use only the files that the installer has written.
const slotCloud = `# made by naupegos
datasource_list: [NoCloud, None]
disable_root: false
ssh_deletekeys: false
system_info:
  network:
    renderers: [networkd]
    activators: [networkd]
`

const agentUnit = `[Unit]
Description=Reports to the Naupegos server, and takes updates
Wants=network-online.target
After=network-online.target
ConditionPathExists=/var/lib/naupegos-machine/machine.json

[Service]
ExecStart=/usr/local/lib/naupegos/naupegos-agent keep
Restart=always
RestartSec=5
OOMScoreAdjust=-900

[Install]
WantedBy=multi-user.target
`

// trialTimer depends on nothing, not even file systems, and continues in emergency mode. The installer writes its time.
const trialTimer = `[Unit]
Description=Goes back to the system before, unless this one reaches its server
DefaultDependencies=no
IgnoreOnIsolate=yes
ConditionKernelCommandLine=naupegos.trial=1

[Timer]
OnBootSec=15min
AccuracySec=1s

[Install]
WantedBy=sysinit.target
`

const trialUnit = `[Unit]
Description=Goes back to the system before
DefaultDependencies=no
IgnoreOnIsolate=yes
SuccessAction=reboot-force
FailureAction=reboot-force

[Service]
Type=oneshot
ExecStart=/bin/echo this system did not reach its server in time: the one before is booted
StandardOutput=journal+console
`
