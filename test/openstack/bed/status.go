package bed

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

// Status prints which services run, since when, and how much memory they use. Shared memory counts in proportion (PSS). If some services do not
// run, Status returns fail.NotReady after the table.
func Status(o Options, w io.Writer) error {
	b, err := open(o)
	if err != nil {
		return err
	}
	total, down := 0, 0
	for _, s := range b.all {
		p, err := readProcess(b.record(s.Name))
		if err != nil {
			return err
		}
		if !p.alive() {
			down++
			fmt.Fprintf(w, "%-18s stopped\n", s.Name)
			continue
		}
		since, err := startedAt(p)
		if err != nil {
			return err
		}
		kib := 0
		pids := p.members()
		for _, pid := range pids {
			kib += pss(pid)
		}
		total += kib
		fmt.Fprintf(w, "%-18s process %-8d %2d processes %5d MiB, for %s\n", s.Name, p.PID, len(pids), kib>>10, time.Since(since).Truncate(time.Second))
	}
	fmt.Fprintf(w, "%d of %d services run, with %d MiB\n", len(b.all)-down, len(b.all), total>>10)
	if down > 0 {
		return fail.New(fail.NotReady, "%d of %d services do not run", down, len(b.all)).Do("start them: make openstack-up")
	}
	return nil
}

// pss returns a process's proportional set size in KiB, or 0 if the process has ended.
func pss(pid int) int {
	f, err := os.Open(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if rest, ok := strings.CutPrefix(s.Text(), "Pss:"); ok {
			kib, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(rest), " kB"))
			if err != nil {
				return 0
			}
			return kib
		}
	}
	return 0
}
