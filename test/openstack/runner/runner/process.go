package runner

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/naupegos/naupegos/internal/tool"
)

// process identifies a process. A PID can be reused, but not with the same start time in the same boot.
type process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks since boot
	Boot  string `json:"boot"`  // the host's boot ID
}

func processOf(pid int) (process, error) {
	start, err := startTime(pid)
	if err != nil {
		return process{}, err
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return process{PID: pid, Start: start, Boot: strings.TrimSpace(string(boot))}, err
}

// startTime returns field 22 of /proc/PID/stat. It fails for zombies.
func startTime(pid int) (uint64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	f := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:])) // the name in parentheses may contain any character
	if len(f) < 20 || f[0] == "Z" {
		return 0, fmt.Errorf("process %d has ended", pid)
	}
	return strconv.ParseUint(f[19], 10, 64)
}

func (p process) alive() bool {
	if p.PID <= 0 {
		return false
	}
	now, err := processOf(p.PID)
	return err == nil && now == p
}

// end ends the process, and kills it with its group after five seconds.
func (p process) end() error {
	if !p.alive() {
		return nil
	}
	if err := syscall.Kill(p.PID, syscall.SIGTERM); err != nil {
		return fmt.Errorf("end process %d: %w", p.PID, err)
	}
	for began := time.Now(); p.alive(); time.Sleep(20 * time.Millisecond) {
		if time.Since(began) > 5*time.Second {
			return syscall.Kill(-p.PID, syscall.SIGKILL)
		}
	}
	return nil
}

// startBound starts cmd in a process group of its own, from a thread that lives as long as cmd: the process gets SIGTERM when this process ends,
// for whatever reason. exited receives the result of Wait.
func startBound(cmd *exec.Cmd, exited chan<- error) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	return tool.StartLocked(cmd, exited)
}
