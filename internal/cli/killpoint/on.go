//go:build killpoints

// Package killpoint lets tests kill this program at step boundaries, and make certificates due early. It does nothing unless it is built with the
// tag killpoints.
package killpoint

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/naupegos/naupegos/internal/plan"
)

// RenewBefore returns NAUPEGOS_RENEW_BEFORE, how long before its end a certificate is due; 0 means the default of package pki.
func RenewBefore() time.Duration {
	text := os.Getenv("NAUPEGOS_RENEW_BEFORE")
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		panic(err)
	}
	return d
}

// Hook returns a function that kills this process at a boundary before or after a step: at the boundary with the number NAUPEGOS_KILL_AT, or at the
// first one that the file NAUPEGOS_KILL_ONCE does not contain. It adds that to the file, so that each run gets one boundary further.
func Hook() func(string, plan.Phase) {
	at, err := strconv.Atoi(os.Getenv("NAUPEGOS_KILL_AT"))
	once := os.Getenv("NAUPEGOS_KILL_ONCE")
	if (err != nil || at <= 0) && once == "" {
		return nil
	}
	var mu sync.Mutex // held during the kill, so that no other goroutine passes a boundary
	n := 0
	return func(step string, phase plan.Phase) {
		mu.Lock()
		defer mu.Unlock()
		n++
		where := string(phase) + " " + step
		if n == at || once != "" && isNew(once, where) {
			_, _ = os.Stderr.WriteString("killpoint " + strconv.Itoa(n) + ": " + where + "\n")
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
	}
}

// isNew reports whether the file lacks the boundary, and adds it.
func isNew(file, where string) bool {
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		panic(err)
	}
	if slices.Contains(strings.Split(string(text), "\n"), where) {
		return false
	}
	if err := os.WriteFile(file, append(text, where+"\n"...), 0o600); err != nil {
		panic(err)
	}
	return true
}
