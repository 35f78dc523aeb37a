package boot

import (
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/agent/host"
	"github.com/naupegos/naupegos/internal/fail"
)

// mounts are the file systems that programs expect.
var mounts = []struct{ source, target, kind, data string }{
	{"proc", "/proc", "proc", ""}, {"sysfs", "/sys", "sysfs", ""}, {"devtmpfs", "/dev", "devtmpfs", "mode=0755"},
	{"tmpfs", "/run", "tmpfs", "mode=0755"}, {"tmpfs", "/tmp", "tmpfs", "mode=1777"},
}

const efiVariables = "/sys/firmware/efi/efivars"

// mount mounts the kernel's file systems.
func (b *boot) mount() error {
	for _, m := range mounts {
		if err := os.MkdirAll(m.target, 0o755); err != nil {
			return fail.Wrap(fail.Internal, err, "make a directory of the machine")
		}
		err := unix.Mount(m.source, m.target, m.kind, unix.MS_NOSUID, m.data)
		if err != nil && !errors.Is(err, unix.EBUSY) { // devtmpfs may already be mounted
			return fail.Wrap(fail.Internal, err, "mount %s", m.target)
		}
	}
	return nil
}

// mountEFI mounts efivarfs after loading its module. A BIOS machine has none.
func (b *boot) mountEFI() {
	if !host.IsDir(efiVariables) {
		return
	}
	if err := unix.Mount("efivarfs", efiVariables, "efivarfs", unix.MS_NOSUID, ""); err != nil && !errors.Is(err, unix.EBUSY) {
		b.say("the firmware's variables are unavailable: " + err.Error())
	}
}

// console is a terminal that shows the machine's messages.
type console interface{ io.Writer }

// openConsoles opens all of the kernel's consoles: a screen and serial lines.
func (b *boot) openConsoles() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name := range strings.FieldsSeq(b.root.Read("/sys/class/tty/console/active")) {
		if f, err := os.OpenFile("/dev/"+name, os.O_WRONLY|unix.O_NOCTTY, 0); err == nil {
			b.consoles = append(b.consoles, f)
		}
	}
	if len(b.consoles) == 0 {
		b.consoles = append(b.consoles, os.Stdout)
	}
}

// end ends the machine. If the kernel refuses, end retries: there is no alternative.
func (b *boot) end(how End) {
	words := map[End]string{Reboot: "rebooting", Kexec: "starting the installed system's kernel", PowerOff: "powering off"}
	commands := map[End]int{Reboot: unix.LINUX_REBOOT_CMD_RESTART, Kexec: unix.LINUX_REBOOT_CMD_KEXEC, PowerOff: unix.LINUX_REBOOT_CMD_POWER_OFF}
	b.say(words[how])
	unix.Sync()
	for {
		if err := unix.Reboot(commands[how]); err != nil {
			b.say("the kernel refuses: " + err.Error())
			how = Reboot
		}
		time.Sleep(10 * time.Second)
	}
}
