package agent

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
)

// state is the agent's memory: what it manages on this host. It is written before anything is changed (with Digest empty
// and what is about to change in Pending), and once more when all is done.
type state struct {
	Digest  string            `json:"digest"` // empty while a run is under way or was cut short
	Machine string            `json:"machine"`
	Applied time.Time         `json:"applied"`
	Paths   map[string]stPath `json:"paths"`
	Units   map[string]stUnit `json:"units"`
	Sysctls map[string]string `json:"sysctls,omitempty"` // values from before our first change
	Images  []string          `json:"images,omitempty"`  // IDs that containerd was seen to hold
	Blobs   []string          `json:"blobs,omitempty"`   // digests that the configuration refers to
	Pending []string          `json:"pending,omitempty"` // changed paths of which units may not have been told yet
}

// stPath is one managed path, and how it was found.
type stPath struct {
	Kind string `json:"kind"` // "file", "binary", "directory"
	// Found says that something was there before us: a directory, which is never removed and gets back its mode and owner,
	// or a file, which is kept in originalsDir and put back.
	Found bool        `json:"found,omitempty"`
	Mode  fs.FileMode `json:"mode,omitempty"`
	UID   int         `json:"uid,omitempty"`
	GID   int         `json:"gid,omitempty"`
}

// stUnit is one managed unit, and how it was found.
type stUnit struct {
	Own        bool `json:"own,omitempty"` // its unit file is ours
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
