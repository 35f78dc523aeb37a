package items

import (
	"strings"
	"testing"
)

// TestKernelArgument accepts the arguments that people use, and refuses those that GRUB, its shell or the machine would not survive.
func TestKernelArgument(t *testing.T) {
	for _, good := range []string{
		"nosmt", "hugepagesz=1G", "isolcpus=managed_irq,domain,2-7", "memmap=4G!12G", "crashkernel=1G-4G:192M,4G-64G:256M", "vfio-pci.ids=10de:1234,10de:5678",
		"console=ttyS1,115200n8", "net.ifnames=0", "intel_iommu=on", "nvme_core.io_timeout=4294967295", "acpi_osi=!*", "ip=10.0.0.1::10.0.0.254:255.255.255.0:h:eth0:off",
		"audit=", "mitigations=auto,nosmt", "panic=30", "rootwait", "initcall_debug", "dsx=1", "3", "boot_delay=1", "S1=1",
	} {
		if problem, _ := KernelArgument(good); problem != "" {
			t.Errorf("%s: %s", good, problem)
		}
	}
	for bad, want := range map[string]string{
		"":                                   "is empty",
		"isolcpus=1 nohz_full=1":             "has a blank",
		"a=\nb":                              "has a blank",
		"-console":                           "begins with a dash",
		"--":                                 "begins with a dash",
		`dyndbg="file x +p"`:                 "has a blank",
		`x="y"`:                              "reads as its own",
		"memmap=4G$12G":                      "reads as its own",
		"memmap=4G\\$12G":                    "reads as its own",
		"a=$(reboot)":                        "reads as its own",
		"a=`reboot`":                         "reads as its own",
		"a=1;reboot":                         "reads as its own",
		"a={b}":                              "reads as its own",
		"a=ü":                                "is not an argument",
		"=1":                                 "is not an argument",
		"a=\x00":                             "is not an argument",
		"root=/dev/sda1":                     "GRUB names the root",
		"init=/bin/sh":                       "another program than systemd",
		"rdinit=/bin/sh":                     "another program",
		"boot=nfs":                           "would not find its root",
		"1":                                  "no services",
		"s":                                  "no services",
		"S":                                  "no services",
		"systemd.run-success-action=none":    "no services",
		"systemd.run_failure_action=exit":    "no services",
		"systemd.unified-cgroup-hierarchy=0": "version 2 of control groups",
		"systemd.debug-shell":                "would be root",
		"rd.systemd.debug_shell":             "before it has booted",
		"sysctl.vm.swappiness=1":             "belong in sysctls",
		"naupegos.trial=1":                   "Naupegos sets it",
		"cgroup_disable=memory":              "all controllers",
	} {
		if problem, hint := KernelArgument(bad); !strings.Contains(problem, want) || hint == "" {
			t.Errorf("%q: %q (%s), want %q", bad, problem, hint, want)
		}
	}
	for _, c := range []struct {
		first, second string
		want          bool
	}{
		{"nosmt", "nosmt", true}, {"isolcpus=1", "isolcpus=2", true}, {"console=tty0", "console=ttyS0", false}, {"console=tty0", "console=tty0", true},
		{"hugepages=4", "hugepages=4", false}, {"a-b=1", "a_b=2", true}, {"a=1", "b=1", false},
	} {
		if got := ArgumentsClash(c.first, c.second); got != c.want {
			t.Errorf("%s and %s: %v", c.first, c.second, got)
		}
	}
}
