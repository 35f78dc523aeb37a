package agent

import (
	"context"
	"errors"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/fail"
)

// Settled is fail.NotReady while a program still runs, or does not run, as before its file was written: by programs, files by the names of
// the programs that kubelet starts by them. A file may be written without any effect on what it starts: once it is older than
// patience, a program that runs is taken as it is. With former only, what does not run is not told of: it
// may do so for reasons of its own.
func (a *Agent) Settled(programs map[string]string, patience time.Duration, former bool) error {
	now := time.Now()
	began, err := a.root.Programs(now)
	if err != nil {
		return err
	}
	var behind []string
	for name, file := range programs {
		info, err := os.Stat(a.path(file))
		if err != nil {
			return fileError(err, "look at what starts "+name, file)
		}
		switch at, runs := began[name]; {
		case !runs && former:
		case !runs:
			behind = append(behind, name+" does not run")
		case at.Before(info.ModTime()) && now.Sub(info.ModTime()) < patience:
			behind = append(behind, name+" has not been restarted since "+path.Base(file)+" was changed")
		}
	}
	if len(behind) == 0 {
		return nil
	}
	slices.Sort(behind)
	return fail.New(fail.NotReady, "%s", strings.Join(behind, "; "))
}

// Pause stops a program as it is (SIGSTOP), says so by paused, and lets it go on when ctx ends, or after longest. A program that does not run is
// none to stop.
func (a *Agent) Pause(ctx context.Context, program string, longest time.Duration, paused func() error) error {
	ids, err := a.root.Processes(program)
	if err != nil {
		return err
	}
	all := func(sig unix.Signal) error {
		var errs []error
		for _, id := range ids {
			if err := unix.Kill(id, sig); err != nil && err != unix.ESRCH { // it may have ended
				errs = append(errs, fail.Wrap(fail.Refused, err, "send %s to process %d of %s", unix.SignalName(sig), id, program))
			}
		}
		return errors.Join(errs...)
	}
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	if err = all(unix.SIGSTOP); err == nil {
		err = paused()
	}
	if err == nil {
		<-ctx.Done()
	}
	return errors.Join(err, all(unix.SIGCONT))
}
