package front

import (
	"fmt"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// forbidden are system calls that the front process never makes: programs, other processes, namespaces, and ways around this filter and Landlock.
var forbidden = []uint32{
	unix.SYS_EXECVE, unix.SYS_EXECVEAT, unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PIDFD_GETFD, unix.SYS_UNSHARE, unix.SYS_SETNS,
	unix.SYS_MOUNT, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE, unix.SYS_FSOPEN, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR, unix.SYS_CHROOT, unix.SYS_PIVOT_ROOT, unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_ADD_KEY, unix.SYS_KEYCTL, unix.SYS_IO_URING_SETUP,
}

// architecture is the kernel's name of the architecture that the program is built for.
func architecture() (uint32, bool) {
	switch runtime.GOARCH {
	case "amd64":
		return unix.AUDIT_ARCH_X86_64, true
	case "arm64":
		return unix.AUDIT_ARCH_AARCH64, true
	}
	return 0, false
}

// Offsets in the kernel's struct seccomp_data.
const (
	atNumber, atArchitecture = 0, 4
	atDomain, atType         = 16, 24 // the arguments of socket
	atFlags                  = 16     // of clone
)

// newNamespaces are clone's flags for namespaces.
const newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// filter returns the program that refuses forbidden calls, those of another ABI, and new sockets except unix sockets and those of datagrams. Landlock
// alone leaves MPTCP, by which a process reaches every TCP server.
func filter(arch uint32) []unix.SockFilter {
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	equal := func(k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: yes, Jf: no, K: k}
	}
	end := func(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }
	allow, refuse := end(unix.SECCOMP_RET_ALLOW), end(unix.SECCOMP_RET_ERRNO|uint32(unix.EPERM))
	const x32 = 0x40000000 // calls of this ABI have the same architecture
	p := []unix.SockFilter{
		load(atArchitecture), equal(arch, 1, 0), refuse,
		load(atNumber), {Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, Jf: 1, K: x32}, refuse,
	}
	for _, n := range forbidden {
		p = append(p, equal(n, 0, 1), refuse)
	}
	// clone3 has its flags in memory, where no filter looks: without it, the C library calls clone. Go calls clone.
	p = append(p, equal(unix.SYS_CLONE3, 0, 1), end(unix.SECCOMP_RET_ERRNO|uint32(unix.ENOSYS)))
	p = append(p, equal(unix.SYS_CLONE, 0, 4), load(atFlags), unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, Jf: 1, K: newNamespaces}, refuse, allow)
	return append(p, equal(unix.SYS_SOCKET, 1, 0), allow,
		load(atDomain), equal(unix.AF_UNIX, 0, 1), allow,
		load(atType), unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: 0xf}, equal(unix.SOCK_DGRAM, 1, 0), equal(unix.SOCK_RAW, 0, 1), allow, refuse)
}

// refuseCalls puts the filter on every thread of the process, which must not get new privileges any more. It returns what the kernel does not offer.
func refuseCalls() (note string, err error) {
	arch, known := architecture()
	if !known {
		return "system calls are not filtered on " + runtime.GOARCH, nil
	}
	program := filter(arch)
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	_, _, e := syscall.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(program)
	switch e {
	case 0:
		return "", nil
	case unix.ENOSYS, unix.EINVAL, unix.EPERM:
		return "system calls are not filtered: " + e.Error(), nil
	}
	return "", fmt.Errorf("filter system calls: %w", e)
}
