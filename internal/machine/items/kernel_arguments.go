package items

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// KernelArgumentForm is a parameter with or without a value. GRUB and the shell interpret every other character.
var KernelArgumentForm = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*(=[A-Za-z0-9_.,:/@%+=~!^*()\[\]-]*)?$`)
})

// reservedArguments are kernel parameters that documents may not set. A name that ends in a dot stands for all names that begin so.
var reservedArguments = map[string]Reserved{
	"root":                             {"GRUB names the root file system", ""},
	"rootfstype":                       {"the machine would not find its root file system", ""},
	"rootflags":                        {"the machine would not find its root file system", "write mount options into /etc/fstab, by files"},
	"rootdelay":                        {"the machine would not find its root file system", ""},
	"ro":                               {"the initial RAM disk needs it", ""},
	"rw":                               {"the initial RAM disk needs ro", ""},
	"initrd":                           {"GRUB names the initial RAM disk", ""},
	"noinitrd":                         {"the machine would not find its root file system", ""},
	"BOOT_IMAGE":                       {"GRUB sets it", ""},
	"init":                             {"the machine would start another program than systemd", ""},
	"rdinit":                           {"the machine would start another program than systemd", ""},
	"boot":                             {"the machine would not find its root file system", ""},
	"break":                            {"the machine would stop before it has booted", ""},
	"single":                           {"the machine would start no services", ""},
	"s":                                {"the machine would start no services", ""},
	"S":                                {"the machine would start no services", ""},
	"1":                                {"the machine would start no services", ""},
	"emergency":                        {"the machine would start no services", ""},
	"rescue":                           {"the machine would start no services", ""},
	"rd.break":                         {"the machine would stop before it has booted", ""},
	"rd.systemd.":                      {"the machine would stop before it has booted", ""},
	"rd.shell":                         {"everyone at the console would be root", ""},
	"systemd.unit":                     {"the machine would start no services", "list units under units"},
	"systemd.run":                      {"the machine would start no services", "list a unit under units, or a hook under hooks"},
	"systemd.run_success_action":       {"the machine would start no services", ""},
	"systemd.run_failure_action":       {"the machine would start no services", ""},
	"systemd.mask":                     {"it could keep kubelet from starting", "list the unit under units, with enabled and started false"},
	"systemd.wants":                    {"units belong in the document", "list the unit under units"},
	"systemd.debug_shell":              {"everyone at the console would be root", ""},
	"systemd.setenv":                   {"it changes the environment of all services", "write a drop-in of the unit, by files"},
	"systemd.hostname":                 {"a node keeps its name", ""},
	"systemd.machine_id":               {"it identifies the machine", ""},
	"systemd.import_credentials":       {"credentials would come from outside the document", ""},
	"systemd.set_credential":           {"documents are not secret", ""},
	"systemd.set_credential_binary":    {"documents are not secret", ""},
	"systemd.unified_cgroup_hierarchy": {"kubelet needs version 2 of control groups", ""},
	"systemd.legacy_systemd_cgroup_controller": {"kubelet needs version 2 of control groups", ""},
	"cgroup_disable":     {"kubelet needs all controllers of control groups", ""},
	"sysctl.":            {"kernel settings belong in sysctls", "set sysctls"},
	"naupegos.":          {"Naupegos sets it", ""},
	"ds":                 {"cloud-init would get another machine's settings", ""},
	"cloud-init":         {"it could keep cloud-init from setting up the machine", ""},
	"cloud-config-url":   {"cloud-init would take settings from elsewhere", ""},
	"module.sig_enforce": {"it decides whether the kernel loads unsigned modules", ""},
	"lockdown":           {"it decides what root may do to the kernel", ""},
}

// repeated are kernel parameters of which each occurrence counts. Of any other, the kernel takes the last.
var repeated = []string{
	"console", "earlycon", "hugepagesz", "hugepages", "memmap", "crashkernel", "module_blacklist", "modprobe.blacklist", "cgroup_enable", "acpi_osi", "pci", "efi", "ip",
	"dyndbg", "hugetlb_cma",
}

// KernelArgument returns why a document may not give the kernel an argument, and what to do instead; "" if it may.
func KernelArgument(arg string) (problem, hint string) {
	switch {
	case strings.TrimSpace(arg) == "":
		return "is empty", "remove it"
	case strings.ContainsAny(arg, " \t\n"):
		return "has a blank", "give each argument an item of its own; a value can't have one"
	case strings.HasPrefix(arg, "-"):
		return "begins with a dash", "a document adds arguments; those of the image are changed in /etc/default/grub of the image"
	case strings.ContainsAny(arg, "\"'$`\\;&|<>{}#"):
		return "has a character that GRUB or its shell reads as its own", "quotes, dollars, backslashes, semicolons and braces can't be given"
	case !KernelArgumentForm().MatchString(arg):
		return "is not an argument of the kernel", "as hugepagesz=1G, or nosmt"
	}
	name, _, _ := strings.Cut(arg, "=")
	for reserved, why := range reservedArguments {
		given, want := argumentName(name), argumentName(reserved)
		if given == want || strings.HasSuffix(reserved, ".") && strings.HasPrefix(given, want) {
			hint := why.Hint
			if hint == "" {
				hint = "remove it"
			}
			return "is not for documents to set: " + why.Owner, hint
		}
	}
	return "", ""
}

// argumentName normalizes a parameter's name: the kernel treats - and _ as equal.
func argumentName(name string) string { return strings.ReplaceAll(name, "-", "_") }

// ArgumentGroup returns what an argument sets: its parameter, except that sizes and numbers of huge pages belong together.
func ArgumentGroup(arg string) string {
	name, _, _ := strings.Cut(arg, "=")
	if name == "hugepagesz" {
		return "hugepages"
	}
	return argumentName(name)
}

// ArgumentsClash reports whether the kernel would take only the second of two arguments.
func ArgumentsClash(first, second string) bool {
	a, _, _ := strings.Cut(first, "=")
	b, _, _ := strings.Cut(second, "=")
	return argumentName(a) == argumentName(b) && (!slices.Contains(repeated, a) || first == second && a != "hugepages")
}
