package agent

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/agent/bootargs"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
)

// state is the agent's memory: what it manages on this host. The agent writes it before it changes anything, with an empty Digest and the upcoming
// changes in Pending, and again at the end.
type state struct {
	Digest  string            `json:"digest"` // empty during a run or after an interrupted one
	Machine string            `json:"machine"`
	Applied time.Time         `json:"applied"`
	Paths   map[string]stPath `json:"paths"`
	Units   map[string]stUnit `json:"units"`
	// Held lists the content of shared directories before the first apply (sharedDirs), which a reset keeps. States of older agents have nil.
	Held    map[string][]string `json:"held,omitempty"`
	Sysctls map[string]string   `json:"sysctls,omitempty"` // values before the agent's first change
	Images  []string            `json:"images,omitempty"`  // IDs of images that containerd had
	Blobs   []string            `json:"blobs,omitempty"`   // digests in the configuration
	// Packages lists the packages that the agent installed, including dependencies.
	Packages []string `json:"packages,omitempty"`
	// Asked lists the packages that the configuration named.
	Asked []string `json:"asked,omitempty"`
	// Release is the configuration's release.
	Release string `json:"release,omitempty"`
	// Preparing means that at most packages were installed: otherwise the host is as its owner left it.
	Preparing bool `json:"preparing,omitempty"`
	// Kernel has the configuration's kernel arguments; nil if it never had any.
	Kernel *bootargs.State `json:"kernel,omitempty"`
	// Stage is the stage of the machine's life that is under way or was interrupted: its hooks run again.
	Stage string `json:"stage,omitempty"`
	// Adopted is the ID of the cluster, not made by Naupegos, that the host belonged to when it was taken over; empty if only applies configured it.
	Adopted string   `json:"adopted,omitempty"`
	Pending []string `json:"pending,omitempty"` // changed paths whose units may not have been restarted yet
}

// stPath is a managed path and its state before Naupegos.
type stPath struct {
	Kind   string `json:"kind"`             // "file", "binary", "directory"
	Secret bool   `json:"secret,omitempty"` // its content is never reported
	// Found says that the path existed before: a directory is then never removed and gets back its mode and owner, and a file is kept in originalsDir
	// and put back.
	Found bool        `json:"found,omitempty"`
	Mode  fs.FileMode `json:"mode,omitempty"`
	UID   int         `json:"uid,omitempty"`
	GID   int         `json:"gid,omitempty"`
}

// stUnit is a managed unit and its state before Naupegos.
type stUnit struct {
	Own        bool `json:"own,omitempty"` // the agent wrote its unit file
	WasEnabled bool `json:"wasEnabled,omitempty"`
	WasActive  bool `json:"wasActive,omitempty"`
}

func (a *Agent) loadState() (*state, error) {
	s := &state{}
	data, err := os.ReadFile(a.path(machine.StateKey))
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fail.Wrap(fail.Internal, err, "read the agent's state")
	default:
		if err := json.Unmarshal(data, s); err != nil {
			return nil, fail.Wrap(fail.Internal, err, "read the agent's state").At(machine.StateKey).
				Do("move the file away; the next run then takes everything it finds as not its own")
		}
	}
	if s.Paths == nil {
		s.Paths = map[string]stPath{}
	}
	if s.Units == nil {
		s.Units = map[string]stUnit{}
	}
	if s.Sysctls == nil {
		s.Sysctls = map[string]string{}
	}
	return s, nil
}

func (a *Agent) saveState(s *state) error {
	data, err := json.Marshal(s)
	if err != nil {
		return fail.Wrap(fail.Internal, err, "write the agent's state")
	}
	if err := os.MkdirAll(a.path(path.Dir(machine.StateKey)), 0o700); err != nil {
		return fileError(err, "write the agent's state", machine.StateKey)
	}
	return a.writeFile(machine.StateKey, data, 0o600)
}

// lock ensures that only one run at a time changes the host. The kernel releases it when the process ends in any way.
func (a *Agent) lock(ctx context.Context) (unlock func(), err error) {
	if err := os.MkdirAll(a.path(path.Dir(lockFile)), 0o700); err != nil {
		return nil, fileError(err, "take the agent's lock", lockFile)
	}
	f, err := os.OpenFile(a.path(lockFile), os.O_RDWR|os.O_CREATE|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fileError(err, "take the agent's lock", lockFile)
	}
	if err := a.flock(ctx, f); err != nil {
		_ = f.Close()
		return nil, err
	}
	// The process ID is only for messages; the lock itself is the kernel's.
	_ = f.Truncate(0)
	_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())), 0)
	return func() { _ = f.Close() }, nil
}

// flock polls, because flock(2) has no timeout without signals.
func (a *Agent) flock(ctx context.Context, f *os.File) error {
	deadline := time.NewTimer(a.lockWait)
	defer deadline.Stop()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return fail.Wrap(fail.Internal, err, "take the agent's lock").At(lockFile)
		}
		select {
		case <-ctx.Done():
			return fail.Wrap(fail.Interrupted, ctx.Err(), "wait for the agent's lock").At(lockFile)
		case <-deadline.C:
			holder, _ := os.ReadFile(f.Name())
			return fail.New(fail.Conflict, "another agent (process %s) has worked on this machine for more than %s",
				strings.TrimSpace(string(holder)), a.lockWait).At(lockFile).Do("wait for it to end, then try again")
		case <-poll.C:
		}
	}
}
