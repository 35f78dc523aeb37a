package support

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/remote"
	"github.com/naupegos/naupegos/internal/testkit"
)

// logs is a machine whose logs are given.
type logs struct {
	text string
	err  error
}

func (l logs) Stream(_ context.Context, _ remote.Host, _ io.Reader, stdout io.Writer, _ ...string) error {
	if l.err != nil {
		return l.err
	}
	_, err := io.WriteString(stdout, l.text)
	return err
}

func (logs) Agent(context.Context, remote.Host, func() io.Reader, ...string) ([]byte, error) {
	return nil, nil
}

func TestServersBecause(t *testing.T) {
	waited := fail.New(fail.NotReady, "kube-apiserver does not run")
	said := func(starts int) string {
		return fmt.Sprintf(`==> kube-apiserver %d.log
2026-11-29T09:00:00.1Z stderr F I1129 09:00:00.000000       1 server.go:1] starting
2026-11-29T09:00:00.2Z stderr F Error: invalid argument "x" for "--event-ttl" flag
2026-11-29T09:00:00.3Z stderr F Error: invalid argument "x" for "--event-ttl" flag
`, starts-1)
	}
	const why = "kube-apiserver does not run\nkube-apiserver does not stay up; its last log lines:\n  starting\n  Error: invalid argument \"x\" for \"--event-ttl\" flag"
	for name, c := range map[string]struct {
		machine logs
		left    time.Duration
		want    string
		final   bool
	}{
		"it may come up yet":        {logs{text: said(2)}, time.Minute, "", false},
		"it was started often":      {logs{text: said(maxStarts)}, time.Minute, why, true},
		"it runs after reboots":     {logs{strings.Replace(said(maxStarts), ".log\n", ".log up\n", 1), nil}, time.Minute, "", false},
		"it ran at the end":         {logs{strings.Replace(said(maxStarts), ".log\n", ".log up\n", 1), nil}, time.Second, why, true},
		"no time is left":           {logs{text: said(1)}, time.Second, why, true},
		"all stay up":               {logs{}, time.Second, "", false},
		"it can't be seen":          {logs{err: errors.New("no route")}, time.Minute, "", false},
		"it can't be seen any more": {logs{err: errors.New("no route")}, time.Second, "no route", true},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), c.left)
			defer cancel()
			if c.left > time.Second {
				ctx, cancel = context.WithTimeout(t.Context(), LookTime+c.left)
				defer cancel()
			}
			err := ServersBecause(ctx, c.machine, remote.Host{}, &Redactor{known: strings.NewReplacer()}, "demo-cp-1", waited)
			if c.want == "" && !errors.Is(err, waited) {
				t.Errorf("got %v, want %v", err, waited)
			}
			if !strings.Contains(err.Error(), c.want) || fail.KindOf(err) != fail.NotReady || fail.Waitable(err) == c.final {
				t.Errorf("%v, waitable %v: want %s", err, fail.Waitable(err), c.want)
			}
			if c.want == why && !strings.Contains(err.Error(), "remove the setting and run naupegos apply again") {
				t.Errorf("%v does not tell the way back", err)
			}
		})
	}
}

// TestServerLogs: the machine names the log of each program and whether it runs, and leaves out a pod from before its manifest was changed.
func TestServerLogs(t *testing.T) {
	dir := t.TempDir()
	write := func(path string) {
		path = filepath.Join(dir, path)
		testkit.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		testkit.Must(t, os.WriteFile(path, []byte("the flag is wrong\n"), 0o644))
	}
	manifest, pod := filepath.Join(dir, "manifests/kube-apiserver.yaml"), "pods/kube-system_kube-apiserver-cp-1_5f3a"
	write("manifests/kube-apiserver.yaml")
	write(pod + "/kube-apiserver/5.log")
	at := func(shift time.Duration, pgrep string) string {
		now := testkit.Value(os.Stat(manifest))(t).ModTime().Add(shift)
		testkit.Must(t, os.Chtimes(filepath.Join(dir, pod), now, now))
		script := strings.NewReplacer("/etc/kubernetes", dir, "/var/log", dir, "pgrep", pgrep).Replace(serverLogs)
		return string(testkit.Value(exec.Command("sh", "-c", script).Output())(t))
	}
	if got := at(time.Second, "false"); !strings.Contains(got, "==> kube-apiserver 5.log \nthe flag is wrong") {
		t.Errorf("of a failing program: %q", got)
	}
	if got := at(-time.Second, "false"); got != "" {
		t.Errorf("of a pod from before the manifest: %q", got)
	}
	if got := at(time.Second, "true"); !strings.Contains(got, "==> kube-apiserver 5.log up\n") {
		t.Errorf("of a program that runs: %q", got)
	}
}
