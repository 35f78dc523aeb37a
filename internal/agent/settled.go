package agent

import (
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
)

// Patience is how long a program counts as behind if it has not restarted since its file was written. After that, the change of the file evidently
// had no effect on the program.
const Patience = 30 * time.Second

// Settled returns fail.NotReady while one of programs, which another program starts from these files, does not run, or has not restarted since its
// file was written. Once a file is older than patience, Settled ignores it.
func (a *Agent) Settled(programs map[string]string, patience time.Duration) error {
	list, err := behind(a, programs, patience, false)
	if err != nil || len(list) == 0 {
		return err
	}
	return fail.New(fail.NotReady, "%s", strings.Join(list, "; "))
}

// former lists the programs of running units that have not restarted since their files were written. It omits programs that do not run, because they
// may recover by themselves.
func former(a *Agent, d *diff, units []machine.Unit) ([]string, error) {
	programs := map[string]string{}
	for _, s := range d.starts(units) {
		programs[programOf(s.File)] = s.File
	}
	if len(programs) == 0 {
		return nil, nil
	}
	return behind(a, programs, Patience, true)
}

// behind lists the programs that are behind their files, sorted; see Settled and former.
func behind(a *Agent, programs map[string]string, patience time.Duration, former bool) ([]string, error) {
	now := time.Now()
	began, err := a.root.Programs(now)
	if err != nil {
		return nil, err
	}
	var list []string
	for name, file := range programs {
		info, err := os.Stat(a.path(file))
		if err != nil {
			return nil, fileError(err, "look at what starts "+name, file)
		}
		switch at, runs := began[name]; {
		case !runs && former:
		case !runs:
			list = append(list, name+" does not run")
		case at.Before(info.ModTime()) && now.Sub(info.ModTime()) < patience:
			list = append(list, name+" has not been restarted since "+path.Base(file)+" was changed")
		}
	}
	slices.Sort(list)
	return list, nil
}
