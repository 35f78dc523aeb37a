//go:build killpoints

package cli

import (
	"os"
	"strconv"
	"sync/atomic"
	"syscall"

	"github.com/naupegos/naupegos/internal/plan"
)

// killPoint kills this process at the n-th boundary of a step (before or after one), n from NAUPEGOS_KILL_AT.
func killPoint() func(string, plan.Phase) {
	at, err := strconv.ParseInt(os.Getenv("NAUPEGOS_KILL_AT"), 10, 64)
	if err != nil || at <= 0 {
		return nil
	}
	var n atomic.Int64
	return func(step string, phase plan.Phase) {
		if n.Add(1) == at {
			os.Stderr.WriteString("killpoint " + strconv.FormatInt(at, 10) + ": " + string(phase) + " " + step + "\n")
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
	}
}
