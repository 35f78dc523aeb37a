// Package agent makes the host it runs on match a machine.Config: files, binaries, kernel settings, units, images.
//
// It first compares, then changes only what differs, and records what it manages, so that another run completes one that was killed at any point. It
// knows nothing of clusters, and uses the network only for requested checks.
package agent

import (
	"fmt"
	"os/user"
	"strconv"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/agent/host"
	"github.com/naupegos/naupegos/internal/machine"
)

// Options are the dependencies of an Agent.
type Options struct {
	Root     string        // prefix of every path; "/" on a real machine, a temporary directory in tests
	Runner   Runner        // runs systemctl, modprobe, ctr and the like
	Owner    OwnerFunc     // resolves owners; nil means LookupOwner
	LockWait time.Duration // how long to wait for another run to finish; 0 means 60 s
	UnitWait time.Duration // time limit of one systemctl or ctr call; 0 means 5 min
	// StartWait is how long a unit that must restart gets to restart the programs that it was just told to start (machine.Unit.Starts); 0 means 90 s.
	StartWait time.Duration
}

// OwnerFunc resolves "user:group" to numeric IDs.
type OwnerFunc func(owner string) (uid, gid int, err error)

// Agent makes one host match its configuration.
type Agent struct {
	root      host.Root
	run       Runner
	owner     OwnerFunc
	lockWait  time.Duration
	unitWait  time.Duration
	startWait time.Duration
}

// New returns an Agent for the host under o.Root.
func New(o Options) *Agent {
	a := &Agent{root: host.Root(o.Root), run: o.Runner, owner: o.Owner, lockWait: o.LockWait, unitWait: o.UnitWait, startWait: o.StartWait}
	if a.root == "" {
		a.root = "/"
	}
	if a.owner == nil {
		a.owner = LookupOwner
	}
	if a.lockWait == 0 {
		a.lockWait = time.Minute
	}
	if a.unitWait == 0 {
		a.unitWait = 5 * time.Minute
	}
	if a.startWait == 0 {
		a.startWait = 90 * time.Second
	}
	return a
}

// path prefixes a path of the configuration with the root.
func (a *Agent) path(p string) string { return a.root.Path(p) }

// The agent's own files, in addition to those of the configuration.
const (
	sysctlFile   = "/etc/sysctl.d/zz-naupegos.conf" // read after those of others, such as 99-sysctl.conf
	modulesFile  = "/etc/modules-load.d/90-naupegos.conf"
	lockFile     = machine.StateDir + "/agent/lock"
	originalsDir = machine.StateDir + "/agent/originals"
)

// LookupOwner resolves "user:group", by name or number, with the host's accounts.
func LookupOwner(owner string) (uid, gid int, err error) {
	u, g, ok := strings.Cut(owner, ":")
	if !ok {
		return 0, 0, fmt.Errorf("owner %q is not of the form user:group", owner)
	}
	if u == "root" && g == "root" {
		return 0, 0, nil
	}
	if uid, err = strconv.Atoi(u); err != nil {
		found, err := user.Lookup(u)
		if err != nil {
			return 0, 0, fmt.Errorf("owner %q: %w", owner, err)
		}
		if uid, err = strconv.Atoi(found.Uid); err != nil {
			return 0, 0, fmt.Errorf("owner %q: %w", owner, err)
		}
	}
	if gid, err = strconv.Atoi(g); err != nil {
		found, err := user.LookupGroup(g)
		if err != nil {
			return 0, 0, fmt.Errorf("owner %q: %w", owner, err)
		}
		if gid, err = strconv.Atoi(found.Gid); err != nil {
			return 0, 0, fmt.Errorf("owner %q: %w", owner, err)
		}
	}
	return uid, gid, nil
}
