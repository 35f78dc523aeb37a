package agent

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/machine"
)

// agentAge is how long an agent is left alone: somebody may be sending it at this moment.
const agentAge = 10 * time.Minute

var agentDirName = regexp.MustCompile(`^[0-9a-f]{64}$`)

// RemoveOldAgents removes the agents that lie beside self, this program's path, and that no process runs. A program that does
// not lie where agents do removes nothing.
func (a *Agent) RemoveOldAgents(self string) error {
	root := a.path(machine.AgentDir)
	own, err := filepath.Rel(root, self)
	if err != nil || filepath.Base(own) != "naupegos-agent" || !agentDirName.MatchString(filepath.Dir(own)) {
		return nil
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		return fileError(err, "look for old agents in", machine.AgentDir)
	}
	var running map[string]bool
	for _, e := range entries {
		if !e.IsDir() || e.Name() == filepath.Dir(own) || !agentDirName.MatchString(e.Name()) {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) || err == nil && time.Since(info.ModTime()) < agentAge {
			continue
		}
		if running == nil {
			running = a.runningAgents()
		}
		if running[e.Name()] {
			continue
		}
		if err := errors.Join(err, os.RemoveAll(filepath.Join(root, e.Name()))); err != nil {
			return fileError(err, "remove an old agent", machine.AgentDir+"/"+e.Name())
		}
	}
	return nil
}

// runningAgents names the directories of agents that processes run: the approver does until it is restarted.
func (a *Agent) runningAgents() map[string]bool {
	out := map[string]bool{}
	links, _ := filepath.Glob(a.path("/proc/[0-9]*/exe")) // the pattern is right
	for _, l := range links {
		target, _ := os.Readlink(l) // the process may have gone meanwhile
		if strings.Contains(target, machine.AgentDir+"/") {
			out[filepath.Base(filepath.Dir(target))] = true
		}
	}
	return out
}
