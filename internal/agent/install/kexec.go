package install

import (
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/agent/install/slots"
	"github.com/naupegos/naupegos/internal/fail"
)

// loadKernel loads the kernel of the slot mounted at root, to be started without the firmware. GRUB is bypassed and keeps its state, so a failed
// trial returns to the good slot by itself.
func loadKernel(root, slot, id string, trial bool) error {
	kernel, err := os.Open(filepath.Join(root, "vmlinuz"))
	if err != nil {
		return fail.Wrap(fail.Refused, err, "read the slot's kernel")
	}
	defer kernel.Close() // read only
	initrd, err := os.Open(filepath.Join(root, "initrd.img"))
	if err != nil {
		return fail.Wrap(fail.Refused, err, "read the slot's kernel")
	}
	defer initrd.Close() // read only
	if err := unix.KexecFileLoad(int(kernel.Fd()), int(initrd.Fd()), commandLine(slot, id, trial), 0); err != nil {
		return fail.Wrap(fail.Refused, err, "load the kernel of slot %s", slot).Do("the firmware or its secure boot may forbid it: choose the strategy reboot")
	}
	return nil
}

// commandLine returns the kernel's command line as GRUB would set it.
func commandLine(slot, id string, trial bool) string {
	words := []string{"root=PARTUUID=" + id, "ro", "naupegos.slot=" + slot, "panic=30", "console=tty0", "console=ttyS0,115200", "consoleblank=0"}
	if trial {
		words = append(words, "naupegos.trial=1")
	}
	return strings.Join(words, " ")
}

// Running returns the slot that the kernel was started from, according to its command line, and whether that is a trial. The slot is empty if the
// kernel was not started from one.
func Running(cmdline string) (slot string, trial bool) {
	for word := range strings.FieldsSeq(cmdline) {
		switch word {
		case "naupegos.slot=" + slots.A:
			slot = slots.A
		case "naupegos.slot=" + slots.B:
			slot = slots.B
		case "naupegos.trial=1":
			trial = true
		}
	}
	return slot, trial
}
