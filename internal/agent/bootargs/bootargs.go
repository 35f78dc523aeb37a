// Package bootargs gives the kernel arguments of a configuration to GRUB, and finds out whether the running kernel has them.
package bootargs

import (
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/agent/host"
	"github.com/naupegos/naupegos/internal/fail"
)

// File adds the configuration's kernel arguments to GRUB's. grub-mkconfig reads the directory in the order of names.
const File = "/etc/default/grub.d/99-naupegos.cfg"

// State is the configuration's kernel arguments when GRUB last got them.
type State struct {
	Arguments []string `json:"arguments,omitempty"`
	Left      []string `json:"left,omitempty"`   // arguments that the configuration dropped while the running kernel still had them
	BootID    string   `json:"bootID,omitempty"` // the boot in which GRUB got them
}

// Content renders File. It appends to the variable whose arguments come last, because the kernel uses the last of two. GRUB's recovery entries do not
// get the arguments.
func Content(args []string) string {
	return "# Managed by Naupegos: spec.machines.kernelArguments.\nGRUB_CMDLINE_LINUX_DEFAULT=\"$GRUB_CMDLINE_LINUX_DEFAULT " + strings.Join(args, " ") + "\"\n"
}

// Check refuses kernel arguments for a machine without a way to set them.
func Check(root host.Root, args []string) error {
	if len(args) == 0 || root.GRUB() {
		return nil
	}
	return fail.New(fail.Refused, "this machine does not boot by a GRUB that update-grub configures: the kernel would not get the arguments %s", strings.Join(args, " ")).
		Do("remove them from kernelArguments of spec.machines, or of the machine's role or pool; give them to the boot loader or the host by other means")
}

// Boots reports whether GRUB gives the kernel these arguments; true if there are none.
func Boots(root host.Root, args []string) bool {
	if len(args) == 0 {
		return true
	}
	for line := range strings.Lines(root.Read(host.GRUBConfig)) {
		f := strings.Fields(line)
		if len(f) > 0 && (f[0] == "linux" || f[0] == "linuxefi") && strings.Contains(" "+strings.Join(f, " ")+" ", " "+strings.Join(args, " ")+" ") {
			return true
		}
	}
	return false
}

// Prove returns an error if update-grub has not taken the arguments.
func Prove(root host.Root, args []string) error {
	if Boots(root, args) {
		return nil
	}
	return fail.New(fail.Refused, "update-grub wrote %s without the kernel arguments %s", host.GRUBConfig, strings.Join(args, " ")).
		Do("a later file of /etc/default/grub.d or a script of /etc/grub.d sets others: have it keep $GRUB_CMDLINE_LINUX_DEFAULT")
}

// Next returns the state for these arguments; was is the present state, nil if there never were arguments.
func Next(root host.Root, was *State, args []string) *State {
	if was == nil && len(args) == 0 {
		return nil
	}
	if was == nil {
		was = &State{}
	}
	if slices.Equal(was.Arguments, args) && Boots(root, args) { // otherwise GRUB gets them only now, after drift or an apply that was cut off
		return was
	}
	next := &State{Arguments: args, BootID: bootID(root)}
	before := was.Arguments
	if was.BootID == next.BootID {
		before = slices.Concat(before, was.Left)
	}
	for _, arg := range before {
		if has(root, arg) && !slices.Contains(args, arg) && !slices.Contains(next.Left, arg) {
			next.Left = append(next.Left, arg)
		}
	}
	return next
}

// Awaits returns why the machine must reboot for its kernel arguments. If a reboot did not apply them, it returns a warning, because another reboot
// would not either.
func Awaits(root host.Root, k *State) (reboot, warnings []string) {
	if k == nil {
		return nil, nil
	}
	lacks := slices.DeleteFunc(slices.Clone(k.Arguments), func(arg string) bool { return has(root, arg) })
	if k.BootID != bootID(root) {
		if len(lacks) > 0 {
			warnings = append(warnings, "the kernel runs without the arguments "+strings.Join(lacks, " ")+" although it has booted since GRUB has them: the machine may boot by something else")
		}
		return nil, warnings
	}
	if len(lacks) > 0 {
		reboot = append(reboot, "kernel arguments are new: "+strings.Join(lacks, " "))
	}
	if left := slices.DeleteFunc(slices.Clone(k.Left), func(arg string) bool { return !has(root, arg) }); len(left) > 0 {
		reboot = append(reboot, "kernel arguments have left the document: "+strings.Join(left, " "))
	}
	return reboot, nil
}

func has(root host.Root, arg string) bool {
	return slices.Contains(strings.Fields(root.Read("/proc/cmdline")), arg)
}

func bootID(root host.Root) string { return root.Read("/proc/sys/kernel/random/boot_id") }
