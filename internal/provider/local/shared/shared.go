package shared

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/provider/local/files"
	"github.com/naupegos/naupegos/internal/provider/local/hostnet"
	"github.com/naupegos/naupegos/internal/provider/local/process"
)

// hostDir holds the files that exist once per host, for all state roots: the lock for making and removing shared kernel
// resources, and the record of the host's settings.
const hostDir = "/run/naupegos"

// Lock takes the host's lock on resources that machines share, waiting as long as ctx allows. The returned function releases it.
func Lock(ctx context.Context) (release func(), err error) {
	return files.Lock(ctx, filepath.Join(hostDir, "lock"))
}

// use is what the kernel itself reports about machines on this host, of all state roots: unlike records, it stays right after a crash or
// the removal of a directory.
type use struct {
	network  bool // a cluster has its bridge in this network namespace
	machines bool // a process of some machine runs on this host
}

var bridgeName = regexp.MustCompile(`^nau[0-9a-f]{8}$`)

func useOfHost() (use, error) {
	names, err := hostnet.Bridges()
	if err != nil {
		return use{}, err
	}
	var u use
	u.network = slices.ContainsFunc(names, bridgeName.MatchString)
	pids, err := process.OfMachines()
	u.machines = len(pids) > 0
	return u, err
}

// RestoreSettings restores the host's settings that no machine needs any more. Call it under the host's lock.
func RestoreSettings() error {
	h, err := settingsOfHost()
	if err != nil {
		return err
	}
	used, err := useOfHost()
	if err != nil {
		return err
	}
	return h.restore(used)
}

// RaiseSettings raises the host's settings that are too low for machines. Call it under the host's lock.
func RaiseSettings() error {
	h, err := settingsOfHost()
	if err != nil {
		return err
	}
	return h.raise()
}

// LowSettings returns the settings that RaiseSettings would raise.
func LowSettings() (map[string]Setting, error) {
	h, err := settingsOfHost()
	if err != nil {
		return nil, err
	}
	return h.low()
}

// RaisedSettings returns the settings that RaiseSettings has raised and RestoreSettings has not restored yet.
func RaisedSettings() (map[string]Setting, error) {
	h, err := settingsOfHost()
	if err != nil {
		return nil, err
	}
	return h.remembered()
}

// networkNamespace identifies this process's network namespace by its cookie, which no other namespace gets until the next boot. On
// kernels before 5.14, which have no SO_NETNS_COOKIE, it uses the inode number of the namespace's file, which can be reused.
func networkNamespace() (string, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", fmt.Errorf("identify the network namespace: %w", err)
	}
	cookie, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if closing := unix.Close(fd); closing != nil {
		return "", closing
	}
	if errors.Is(err, unix.ENOPROTOOPT) {
		return os.Readlink("/proc/self/ns/net")
	}
	return strconv.FormatUint(cookie, 10), err
}
