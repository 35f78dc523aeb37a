package host

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
)

// agentAge is how long a new agent is kept: it may still be in transfer.
const agentAge = 10 * time.Minute

var agentDirName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-f]{64}$`) })

// RemoveOldAgents removes the agents beside self, the path of this program, that no process runs. If self is not in the agents' directory, it removes
// nothing.
func (r Root) RemoveOldAgents(self string) error {
	root := r.Path(machine.AgentDir)
	own, err := filepath.Rel(root, self)
	if err != nil || filepath.Base(own) != "naupegos-agent" || !agentDirName().MatchString(filepath.Dir(own)) {
		return nil
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		return fail.Wrap(fail.Internal, err, "look for old agents").At(machine.AgentDir)
	}
	var running map[string]bool
	for _, e := range entries {
		if !e.IsDir() || e.Name() == filepath.Dir(own) || !agentDirName().MatchString(e.Name()) {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) || err == nil && time.Since(info.ModTime()) < agentAge {
			continue
		}
		if running == nil {
			running = r.runningAgents()
		}
		if running[e.Name()] {
			continue
		}
		if err := errors.Join(err, os.RemoveAll(filepath.Join(root, e.Name()))); err != nil {
			return fail.Wrap(fail.Internal, err, "remove an old agent").At(machine.AgentDir + "/" + e.Name())
		}
	}
	return nil
}

// runningAgents returns the directories of agents that processes run; the approver, for example, keeps its agent until it is restarted.
func (r Root) runningAgents() map[string]bool {
	out := map[string]bool{}
	links, _ := filepath.Glob(r.Path("/proc/[0-9]*/exe")) // the pattern is valid
	for _, l := range links {
		target, _ := os.Readlink(l) // the process may have ended meanwhile
		if strings.Contains(target, machine.AgentDir+"/") {
			out[filepath.Base(filepath.Dir(target))] = true
		}
	}
	return out
}
