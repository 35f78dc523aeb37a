package support

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/remote"
)

// serverLines is how many of the last lines of a program's log an error shows.
const serverLines = 6

// maxStarts is the number of starts after which a program counts as unable to run: by then kubelet has waited 10, 20 and 40 s.
const maxStarts = 4

// serverLogs prints the end of the log of each program of the control plane that does not run or has ended since kubelet read its manifest: kubelet
// counts the starts of a container in the names of its logs. Logs of a pod from before the manifest say nothing about it: kubelet has not read it yet.
const serverLogs = `for p in etcd kube-apiserver kube-controller-manager kube-scheduler; do
  [ -e /etc/kubernetes/manifests/$p.yaml ] || continue
  f=$(ls -t /var/log/pods/kube-system_$p-*/$p/*.log 2>/dev/null | head -n 1)
  [ -n "$f" ] && [ "${f%/*/*}" -nt /etc/kubernetes/manifests/$p.yaml ] || continue
  up=; if pgrep -x "$(echo $p | cut -c1-15)" >/dev/null; then up=up; fi
  if [ "$(basename "$f")$up" = 0.logup ]; then continue; fi
  echo "==> $p $(basename "$f") $up"
  tail -n 60 "$f"
done`

// ServersBecause finds out why a control-plane machine does not serve yet. Once kubelet has started a program there maxStarts times in vain, or
// time runs out, it adds the last log lines of the failing programs to waited, the error of a wait for them, and the result is final. Otherwise
// it returns waited.
func ServersBecause(ctx context.Context, source Source, h remote.Host, r *Redactor, name string, waited error) error {
	deadline, bounded := ctx.Deadline()
	last := bounded && time.Until(deadline) < LookTime
	ctx, cancel := context.WithTimeout(ctx, LookTime*3/4)
	defer cancel()
	out := &tailBuffer{limit: troubleLog}
	if err := source.Stream(ctx, h, nil, out, "sh", "-c", serverLogs); err != nil {
		if !last {
			return waited
		}
		return fail.New(fail.NotReady, "%s; the logs there can't be read: %s", withoutHint(waited), err).At(name).Enough()
	}
	said, starts := serversSaid(string(r.Redact(out.bytes())), last)
	if said == "" || !last && starts < maxStarts {
		return waited
	}
	return fail.New(fail.NotReady, "%s%s", withoutHint(waited), said).At(name).
		Do("if a setting of the document keeps it from starting, remove the setting and run naupegos apply again: it begins with this machine; the others still run without the setting").Enough()
}

// serversSaid parses the output of serverLogs: the last lines of each program, without the container runtime's prefix, and the highest number of
// starts of a program. It leaves out programs that run, unless all is true: each reboot of a machine counts as a start, too.
func serversSaid(out string, all bool) (said string, starts int) {
	var b strings.Builder
	for _, part := range strings.Split("\n"+out, "\n==> ")[1:] {
		head, log, _ := strings.Cut(part, "\n")
		program, count, _ := strings.Cut(strings.TrimSpace(head), " ")
		count, runs := strings.CutSuffix(count, " up")
		if runs && !all {
			continue
		}
		if n, err := strconv.Atoi(strings.TrimSuffix(count, ".log")); err == nil {
			starts = max(starts, n+1)
		}
		var lines []string
		for line := range strings.Lines(log) {
			if line = serverLine(line); line != "" {
				lines = once(lines, line)
			}
		}
		fmt.Fprintf(&b, "\n%s does not stay up; its last log lines:", program)
		for _, line := range lines[max(0, len(lines)-serverLines):] {
			b.WriteString("\n  " + line)
		}
	}
	return b.String(), starts
}

// serverLine returns a line of a log without the head that the container runtime writes (time, stream, "F" or "P") and without the time that klog
// writes.
func serverLine(line string) string {
	line = strings.TrimSpace(line)
	if parts := strings.SplitN(line, " ", 4); len(parts) == 4 && (parts[1] == "stderr" || parts[1] == "stdout") {
		line = parts[3]
	}
	return shorten(klogHead().ReplaceAllString(line, ""), troubleLength)
}
