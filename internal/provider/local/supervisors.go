package local

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/provider/local/files"
	"github.com/naupegos/naupegos/internal/provider/local/process"
	"github.com/naupegos/naupegos/internal/tool"
)

// supervisor returns the process that run.json in dir names, or the zero process if the file is missing. The file is replaced
// atomically but not synced: a file that can't be parsed, like its process, is from before a crash of the host.
func supervisor(dir string) (process.ID, error) {
	data, err := os.ReadFile(runFile(dir))
	if err != nil {
		return process.ID{}, files.IgnoreGone(err)
	}
	var p process.ID
	if err := json.Unmarshal(data, &p); err != nil {
		return process.ID{}, nil //nolint:nilerr // see above
	}
	return p, nil
}

// settleTime is longer than a supervisor waits for its machine's lock.
const settleTime = 25 * time.Second

// settled returns a machine's supervisor, or the zero process. It waits for a supervisor that is still starting, because the run that
// started it was interrupted, or that is about to end: otherwise the machine could get two.
func settled(ctx context.Context, dir string) (running process.ID, err error) {
	wait, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	err = tool.Until(wait, 20*time.Millisecond, func() (bool, error) {
		if running, err = supervisor(dir); err != nil || running.Alive() {
			return err == nil, err
		}
		unsaid, err := supervisors(dir)
		return len(unsaid) == 0, err
	})
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		err = nil // it hangs: startSupervisor kills it
	}
	return running, err
}

// supervisors finds the processes that supervise the machine in dir by their last argument: run.json names a supervisor only
// after it has the machine's lock.
func supervisors(dir string) ([]process.ID, error) {
	boot, err := process.BootID()
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return nil, err
	}
	var out []process.ID
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil || !strings.HasSuffix(string(text), "\x00"+dir+"\x00") {
			continue // ended in the meantime, or another program
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f)))
		if err != nil || pid == os.Getpid() {
			continue
		}
		if start, _, err := process.Stat(pid); err == nil {
			out = append(out, process.ID{PID: pid, Start: start, Boot: boot})
		}
	}
	return out, nil
}
