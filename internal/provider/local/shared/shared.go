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

// hostDir holds what there is once on a host, for all state roots and whoever else runs machines: the lock under which what machines share
// in the kernel is made and removed, and the record of the host's settings.
const hostDir = "/run/naupegos"

// Lock takes the lock on what machines share on this host, waiting as long as ctx allows. The returned function releases it.
func Lock(ctx context.Context) (release func(), err error) {
	return files.Lock(ctx, filepath.Join(hostDir, "lock"))
}

// use is what the kernel itself says of machines on this host, whatever their state root: what a crash or a removed directory leaves
// can't make that wrong.
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

// RestoreSettings puts those of the host's settings back that nobody's machines need any more. Call it under the host's lock.
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

// RaiseSettings raises those of the host's settings that are too low for machines. Call it under the host's lock.
func RaiseSettings() error {
	h, err := settingsOfHost()
	if err != nil {
		return err
	}
	return h.raise()
}

// LowSettings returns what RaiseSettings would raise.
func LowSettings() (map[string]Setting, error) {
	h, err := settingsOfHost()
	if err != nil {
		return nil, err
	}
	return h.low()
}

// RaisedSettings returns what RaiseSettings has raised and RestoreSettings has not put back yet.
func RaisedSettings() (map[string]Setting, error) {
	h, err := settingsOfHost()
	if err != nil {
		return nil, err
	}
	return h.remembered()
}

// networkNamespace names the network namespace that this process is in, by a number that no other one gets until the next boot; where the
// kernel (before 5.14) does not tell it, by that of its file, which a later one can have.
func networkNamespace() (string, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", fmt.Errorf("tell the network namespace: %w", err)
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
