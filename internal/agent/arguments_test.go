package agent

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/agent/bootargs"
	"github.com/naupegos/naupegos/internal/agent/host"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/testkit"
)

// withGRUB gives a host GRUB, with an argument of its own, and boots it.
func withGRUB(t *testing.T, f *fakeHost) {
	t.Helper()
	for path, text := range map[string]string{
		"/etc/default/grub": "GRUB_CMDLINE_LINUX=\"\"\nGRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\n", "/etc/default/grub.d/10-image.cfg": "GRUB_CMDLINE_LINUX=\"console=ttyS0\"\n",
		host.UpdateGRUB: "", host.GRUBConfig: "",
	} {
		testkit.Must(t, os.MkdirAll(filepath.Dir(f.root+path), 0o755))
		write(t, f.root+path, text)
	}
	_, err := f.Run(t.Context(), nil, "update-grub")
	testkit.Must(t, err)
	f.boot(t, "one")
}

// boot starts the kernel with the arguments that GRUB gives it.
func (f *fakeHost) boot(t *testing.T, id string) {
	t.Helper()
	testkit.Must(t, os.MkdirAll(f.root+"/proc/sys/kernel/random", 0o755))
	write(t, f.root+"/proc/sys/kernel/random/boot_id", id+"\n")
	write(t, f.root+"/proc/cmdline", "BOOT_IMAGE="+strings.TrimPrefix(strings.TrimSpace(f.content(host.GRUBConfig)), "linux "))
}

// TestKernelArguments: arguments are in GRUB's configuration at once and take effect after a reboot; drift is corrected, and a removed argument is
// gone after the next reboot.
func TestKernelArguments(t *testing.T) {
	f, c := hosted(t)
	withGRUB(t, f)
	a := New(Options{Root: f.root, Runner: f})
	awaits := func(when string, want ...string) {
		t.Helper()
		dry := testkit.Value(a.Apply(t.Context(), c, true))(t)
		if !slices.Equal(dry.Reboot, want) || len(dry.Warnings) > 0 {
			t.Errorf("%s: a dry run says %q, warnings %q; want %q", when, dry.Reboot, dry.Warnings, want)
		}
		if got := a.RebootReasons().Reboot; len(dry.Changes) == 0 && !slices.Equal(got, want) {
			t.Errorf("%s: reasons to reboot are %q, want %q", when, got, want)
		}
	}
	f.apply(t, c)
	awaits("without arguments")
	c.KernelArguments = []string{"nosmt", "hugepagesz=1G"}
	awaits("before they are applied", "kernel arguments are new: nosmt hugepagesz=1G")
	f.apply(t, c)
	if got := f.content(host.GRUBConfig); !strings.Contains(got, "console=ttyS0 quiet nosmt hugepagesz=1G\n") {
		t.Errorf("GRUB has %q", got)
	}
	awaits("after they are applied", "kernel arguments are new: nosmt hugepagesz=1G")
	f.boot(t, "two")
	awaits("after the reboot")

	// An upgrade of the kernel package runs update-grub, too; another program's change is drift.
	write(t, f.root+host.GRUBConfig, "\tlinux /vmlinuz root=/dev/vda1 ro quiet\n")
	drift := f.apply(t, c)
	if !slices.ContainsFunc(drift.Changes, func(ch machine.Change) bool { return ch.Name == "update-grub" }) || !bootargs.Boots(a.root, c.KernelArguments) {
		t.Errorf("after another program's change: %+v, %s", drift.Changes, f.content(host.GRUBConfig))
	}
	if again := f.apply(t, c); len(again.Changes) > 0 {
		t.Errorf("the next apply changes %+v", again.Changes)
	}
	write(t, f.root+host.GRUBConfig, "\tlinux /vmlinuz root=/dev/vda1 ro quiet\n")
	f.boot(t, "drifted")
	f.apply(t, c)
	awaits("a boot without them, and their correction", "kernel arguments are new: nosmt hugepagesz=1G")
	f.boot(t, "corrected")
	awaits("after the correction's reboot")

	// An apply is killed before update-grub, and the machine boots.
	c.KernelArguments = []string{"nosmt", "hugepagesz=1G", "tsx=off"}
	f.fail = func(argv []string) error {
		if argv[0] == "update-grub" {
			return errors.New("the power went")
		}
		return nil
	}
	if _, err := a.Apply(t.Context(), c, false); err == nil {
		t.Error("an apply that was cut off succeeds")
	}
	f.fail = nil
	f.boot(t, "cut off")
	f.apply(t, c)
	awaits("after an apply that was cut off", "kernel arguments are new: tsx=off")
	f.boot(t, "complete")
	awaits("after the reboot")
	c.KernelArguments = []string{"nosmt", "hugepagesz=1G"}
	f.apply(t, c)
	f.boot(t, "shorter")

	c.KernelArguments = []string{"hugepagesz=1G", "mitigations=auto"}
	f.apply(t, c)
	awaits("another list", "kernel arguments are new: mitigations=auto", "kernel arguments have left the document: nosmt")
	c.KernelArguments = nil
	f.apply(t, c)
	awaits("no list", "kernel arguments have left the document: hugepagesz=1G nosmt")
	f.boot(t, "three")
	awaits("in the end")
	if got := f.content("/proc/cmdline"); strings.Contains(got, "nosmt") || strings.Contains(got, "1G") {
		t.Errorf("the kernel runs with %s", got)
	}
}

// TestKernelArgumentsRefused: Apply refuses a machine without GRUB before it changes anything; it reports a GRUB configuration that ignores the
// arguments, and a boot without them.
func TestKernelArgumentsRefused(t *testing.T) {
	f, c := hosted(t)
	c.KernelArguments = []string{"nosmt"}
	a := New(Options{Root: f.root, Runner: f})
	for _, dry := range []bool{true, false} {
		_, err := a.Apply(t.Context(), c, dry)
		testkit.Fails(t, err, fail.Refused, "does not boot by a GRUB", "nosmt", "kernelArguments")
	}
	if f.content(machine.StateKey) != "" {
		t.Error("something was changed")
	}
	withGRUB(t, f)
	write(t, f.root+"/etc/default/grub.d/99-zz.cfg", "GRUB_CMDLINE_LINUX_DEFAULT=splash\n")
	_, err := a.Apply(t.Context(), c, false)
	testkit.Fails(t, err, fail.Refused, "update-grub wrote /boot/grub/grub.cfg without the kernel arguments nosmt", "/etc/default/grub.d")
	testkit.Must(t, os.Remove(f.root+"/etc/default/grub.d/99-zz.cfg"))
	f.apply(t, c)
	write(t, f.root+"/proc/sys/kernel/random/boot_id", "two\n")
	dry := testkit.Value(a.Apply(t.Context(), c, true))(t)
	if len(dry.Warnings) != 1 || !strings.Contains(dry.Warnings[0], "runs without the arguments nosmt") || len(dry.Reboot) > 0 || len(a.RebootReasons().Reboot) > 0 {
		t.Errorf("after a boot without them: %+v", dry)
	}
}
