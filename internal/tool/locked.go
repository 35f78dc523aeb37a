package tool

import (
	"os/exec"
	"runtime"
)

// StartLocked starts cmd from a thread that lives as long as the process does, as Pdeathsig wants it: the kernel sends
// that signal when the thread that started the process ends. The process's end is put into exited.
func StartLocked(cmd *exec.Cmd, exited chan<- error) error {
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			exited <- cmd.Wait()
		}
	}()
	return <-started
}
