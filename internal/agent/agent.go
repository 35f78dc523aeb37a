package agent

import (
	"path/filepath"
	"time"

	"github.com/naupegos/naupegos/internal/machine"
)

// Options is what an Agent depends on.
type Options struct {
	Root     string        // prefix of every path; "/" on a real machine, a temporary directory in tests
	Runner   Runner        // runs systemctl, modprobe, ctr and the like
	Owner    OwnerFunc     // resolves owners; nil means LookupOwner
	LockWait time.Duration // how long to wait for another run to finish; 0 means 60 s
	UnitWait time.Duration // how long one systemctl or ctr call may take; 0 means 5 min
}

// OwnerFunc turns "user:group" into numbers.
type OwnerFunc func(owner string) (uid, gid int, err error)

// Agent makes one host match its configuration.
type Agent struct {
	root     string
	run      Runner
	owner    OwnerFunc
	lockWait time.Duration
	unitWait time.Duration
}

// New returns an Agent for the host under o.Root.
func New(o Options) *Agent {
	a := &Agent{root: o.Root, run: o.Runner, owner: o.Owner, lockWait: o.LockWait, unitWait: o.UnitWait}
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
	return a
}

// path puts the root before a path of the configuration.
func (a *Agent) path(p string) string { return filepath.Join(a.root, p) }

// Files of ours beside the configuration's own.
const (
	sysctlFile   = "/etc/sysctl.d/90-naupegos.conf"
	modulesFile  = "/etc/modules-load.d/90-naupegos.conf"
	lockFile     = machine.StateDir + "/agent/lock"
	originalsDir = machine.StateDir + "/agent/originals"
)
