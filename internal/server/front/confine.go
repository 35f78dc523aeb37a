package front

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// becomeUser gives up root, except for the capabilities that open the sockets that machines boot over.
func (p *Process) becomeUser() error {
	if p.User == nil || cgo() && p.Network {
		return nil
	}
	if cgo() {
		return errors.Join(syscall.Setgroups([]int{}), syscall.Setgid(p.User.GID), syscall.Setuid(p.User.UID))
	}
	if _, _, e := syscall.AllThreadsSyscall(unix.SYS_PRCTL, unix.PR_SET_KEEPCAPS, 1, 0); e != 0 {
		return fmt.Errorf("keep capabilities: %w", e)
	}
	if err := errors.Join(syscall.Setgroups([]int{}), syscall.Setgid(p.User.GID), syscall.Setuid(p.User.UID)); err != nil {
		return err
	}
	var keep uint32
	if p.Network {
		keep = 1<<unix.CAP_NET_BIND_SERVICE | 1<<unix.CAP_NET_RAW
	}
	return setCapabilities(keep)
}

// cgo reports whether the program was built with cgo, as tests are: Go can't make the calls below on threads that it does not know.
func cgo() bool {
	_, _, e := syscall.AllThreadsSyscall(unix.SYS_PRCTL, unix.PR_GET_KEEPCAPS, 0, 0)
	return e == syscall.ENOTSUP
}

// setCapabilities drops all other capabilities of every thread.
func setCapabilities(keep uint32) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := [2]unix.CapUserData{{Effective: keep, Permitted: keep}}
	_, _, e := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&data[0])), 0)
	runtime.KeepAlive(&header)
	runtime.KeepAlive(&data)
	if e != 0 {
		return fmt.Errorf("drop capabilities: %w", e)
	}
	return nil
}

// shutIn drops the rights that the process no longer needs: new privileges, by Landlock all files except those in the directory of leases, other
// processes and TCP, and by a filter system calls that it does not make. It returns what the kernel does not offer.
func (p *Process) shutIn() (note string, err error) {
	if cgo() {
		return "the program was built with cgo", nil
	}
	if _, _, e := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0); e != 0 {
		return "", fmt.Errorf("no new privileges: %w", e)
	}
	version, _, e := syscall.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if e == 0 {
		err = p.landlock(int(version))
	} else if p.User == nil {
		note = "the kernel offers no Landlock, and the process has the server's own user: it could read what this user can"
	}
	if err != nil {
		return "", err
	}
	missing, err := refuseCalls()
	return cmp.Or(note, missing), err
}

// Rights that Landlock handles, by its versions.
const (
	filesV1 = 1<<13 - 1
	filesV2 = filesV1 | unix.LANDLOCK_ACCESS_FS_REFER
	filesV3 = filesV2 | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	filesV5 = filesV3 | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	tcp     = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	signals = 1 << 1 // LANDLOCK_SCOPE_SIGNAL
)

func (p *Process) landlock(version int) error {
	attr := struct{ files, net, scope uint64 }{files: filesV1}
	size := uintptr(8)
	if version >= 2 {
		attr.files = filesV2
	}
	if version >= 3 {
		attr.files = filesV3
	}
	if version >= 4 {
		attr.net, size = tcp, 16
	}
	if version >= 5 {
		attr.files = filesV5
	}
	if version >= 6 {
		attr.scope, size = signals, 24
	}
	fd, _, e := syscall.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if e != 0 {
		return fmt.Errorf("make a Landlock ruleset: %w", e)
	}
	defer syscall.Close(int(fd)) //nolint:errcheck // the ruleset is in force by then
	if p.Writes {
		rule := unix.LandlockPathBeneathAttr{Allowed_access: unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR |
			unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | attr.files&unix.LANDLOCK_ACCESS_FS_TRUNCATE, Parent_fd: leasesFD}
		if _, _, e := syscall.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, fd, unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0); e != 0 {
			return fmt.Errorf("allow the directory of leases: %w", e)
		}
	}
	if _, _, e := syscall.AllThreadsSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); e != 0 {
		return fmt.Errorf("restrict the process: %w", e)
	}
	return nil
}

// clearAmbient withholds this thread's capabilities from programs that it starts. The thread must not do anything else.
func clearAmbient() error {
	return unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
}

// environment returns the variables of this process that the front process gets: the settings of Go's runtime.
func environment() []string {
	out := []string{} // nil would pass all of them
	for _, name := range []string{"GOMAXPROCS", "GOMEMLIMIT", "GOGC", "TZ"} {
		if v, ok := os.LookupEnv(name); ok {
			out = append(out, name+"="+v)
		}
	}
	return out
}
