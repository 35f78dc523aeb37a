package support

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/remote"
)

// unitHost answers for a machine's systemd.
type unitHost struct {
	Source
	show    string            // output of systemctl show
	journal map[string]string // by unit
	err     error             // of journalctl
}

func (u unitHost) Stream(_ context.Context, _ remote.Host, _ io.Reader, w io.Writer, argv ...string) error {
	if argv[0] == "systemctl" {
		_, err := io.WriteString(w, u.show)
		return err
	}
	for _, a := range argv {
		if name, ok := strings.CutPrefix(a, "--unit="); ok {
			if _, err := io.WriteString(w, u.journal[name]); err != nil {
				return err
			}
		}
	}
	return u.err
}

const (
	runs         = "Result=success\nId=%\nLoadState=loaded\nActiveState=active\nSubState=running\n"
	crashing     = "Result=exit-code\nId=%\nLoadState=loaded\nActiveState=activating\nSubState=auto-restart\n"
	maskedUnit   = "Result=success\nId=%\nLoadState=masked\nActiveState=inactive\nSubState=dead\n"
	badConfigLog = `Started kubelet.service - kubelet.
E1121 12:00:01.000001    4711 run.go:72] "command failed" err="failed to load kubelet config file, path: /nowhere: no such file"
kubelet.service: Main process exited, code=exited, status=1/FAILURE
kubelet.service: Scheduled restart job, restart counter is at 1.
I1121 12:00:02.000000    4712 server.go:1] "Starting"
E1121 12:00:02.000001    4712 run.go:72] "command failed" err="failed to load kubelet config file, path: /nowhere: no such file"
kubelet.service: Main process exited, code=exited, status=1/FAILURE
kubelet.service: Failed with result 'exit-code'.
`
)

func show(kubelet, containerd string) string {
	return strings.ReplaceAll(kubelet, "%", "kubelet.service") + "\n" + strings.ReplaceAll(containerd, "%", "containerd.service")
}

func TestNodeTrouble(t *testing.T) {
	secrets, planted := ourSecrets(t)
	r, err := NewRedactor(t.Context(), secrets)
	if err != nil {
		t.Fatal(err)
	}
	var leaks strings.Builder
	for _, p := range planted {
		leaks.WriteString(`E1121 12:00:01.000001    4711 x.go:72] "leak" token=` + p + "\n")
	}
	waited := fail.New(fail.NotReady, "wait for nodes: w: not ready, NodeStatusUnknown: Kubelet stopped posting node status.").At("https://x").Do("read logs")
	for name, c := range map[string]struct {
		host   unitHost
		want   []string // in this order
		not    string
		advice string
	}{
		"bad config": {
			unitHost{show: show(crashing, runs), journal: map[string]string{"kubelet.service": badConfigLog}},
			[]string{"w: wait for nodes: w: not ready, NodeStatusUnknown", "kubelet.service is activating (auto-restart, exit-code); its log says:", `"command failed" err="failed to load kubelet config file, path: /nowhere`},
			"containerd.service", "naupegos ssh demo w",
		},
		"no swap please": {
			unitHost{show: show(crashing, runs), journal: map[string]string{"kubelet.service": "E1121 12:00:01.000001 1 run.go:72] \"command failed\" err=\"running with swap on is not supported\"\n"}},
			[]string{"running with swap on"}, "read logs", "turn off swap",
		},
		"masked containerd": {
			unitHost{show: show(runs, maskedUnit), journal: map[string]string{"kubelet.service": "I1121 12:00:01.000001 1 a.go:1] \"fine\"\n", "containerd.service": "Stopped containerd.service.\n"}},
			[]string{"containerd.service is masked and inactive; its log says:", "Stopped containerd.service."}, "fine", "systemctl unmask containerd.service",
		},
		"only systemd speaks": {
			unitHost{show: show(crashing, runs), journal: map[string]string{"kubelet.service": "kubelet.service: Main process exited, code=exited, status=1/FAILURE\n"}},
			[]string{"status=1/FAILURE"}, "", "node replace demo w",
		},
		"its own last words": {
			unitHost{show: show(runs, crashing), journal: map[string]string{"containerd.service": "time=x level=error msg=1\ntime=x level=error msg=2\ntime=x level=error msg=3\nStarting containerd.service - containerd...\ncontainerd: failed to load TOML: /nowhere/e2e.toml\ncontainerd.service: Main process exited, code=exited, status=1/FAILURE\nFailed to start containerd.service - containerd.\n"}},
			[]string{"containerd.service is activating", "failed to load TOML: /nowhere/e2e.toml"}, "Main process", "naupegos ssh demo w",
		},
		"alive at the moment": {
			unitHost{show: show("NRestarts=17\n"+runs, "NRestarts=0\n"+runs), journal: map[string]string{"kubelet.service": badConfigLog}},
			[]string{"kubelet.service is active (running), after systemd has restarted it 17 times; its log says:", "failed to load kubelet config"}, "containerd.service", "naupegos ssh demo w",
		},
		"containerd's own errors": {
			unitHost{show: show(runs, runs), journal: map[string]string{"containerd.service": "time=\"2026-11-21T12:00:00Z\" level=info msg=fine\ntime=\"2026-11-21T12:00:00Z\" level=error msg=\"write x: no space left on device\"\n"}},
			[]string{"containerd.service's log says:", `level=error msg="write x`}, "msg=fine", "make room",
		},
		"nothing": {unitHost{show: show(runs, runs)}, []string{"log no errors"}, "says", "naupegos ssh demo w"},
		"no journal": {
			unitHost{show: show(crashing, runs), err: errors.New("no journal files were found")},
			[]string{"kubelet.service is activating", "more could not be read", "no journal files"}, "nothing", "naupegos ssh",
		},
		"secrets": {unitHost{show: show(crashing, runs), journal: map[string]string{"kubelet.service": leaks.String()}}, []string{redacted}, "", "naupegos ssh"},
		"a flood": {
			unitHost{show: show(crashing, runs), journal: map[string]string{"kubelet.service": strings.Repeat("E1121 12:00:01.000001 1 x.go:72] "+strings.Repeat("long ", 200)+"\n", 2000)}},
			[]string{"long long", "…"}, "", "naupegos ssh",
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := NotReadyBecause("w", "demo", waited, LookForTrouble(t.Context(), c.host, remote.Host{Name: "w"}, r, time.Minute))
			text := err.Error()
			if fail.KindOf(err) != fail.NotReady || fail.Waitable(err) {
				t.Errorf("want an error that is not ready and final: %s, waitable %v", fail.KindOf(err), fail.Waitable(err))
			}
			rest := text
			for _, w := range append(c.want, c.advice) {
				_, after, ok := strings.Cut(rest, w)
				if !ok {
					t.Fatalf("does not say %q in its place:\n%s", w, text)
				}
				rest = after
			}
			if c.not != "" && strings.Contains(text, c.not) {
				t.Errorf("says %q:\n%s", c.not, text)
			}
			for what, p := range planted {
				if strings.Contains(text, p) {
					t.Errorf("tells the secret %s", what)
				}
			}
			if len(text) > 4000 {
				t.Errorf("is %d bytes long", len(text))
			}
		})
	}
}

func TestNoAPIBecause(t *testing.T) {
	waited := fail.New(fail.NotReady, "gave up waiting: https://10.0.0.10:6443/readyz: connection refused").Do("look at the machines")
	kubelet := unitTrouble{name: "kubelet.service", state: "activating (auto-restart, exit-code)", complaints: []string{"failed to load config", "no such file"}}
	noisy := unitTrouble{name: "kubelet.service", complaints: []string{"connection refused"}}
	names := []string{"demo-cp-1", "demo-cp-2", "demo-cp-3"}
	err := NoAPIBecause("demo", names, waited, []Trouble{{units: []unitTrouble{noisy}}, {units: []unitTrouble{kubelet}}, {Unseen: errors.New("no route to host")}})
	want := `gave up waiting: https://10.0.0.10:6443/readyz: connection refused
on demo-cp-2
  kubelet.service is activating (auto-restart, exit-code); its log says:
      failed to load config
      no such file
on demo-cp-3
  more could not be read from the machine: no route to host (log in with naupegos ssh demo demo-cp-2, fix the cause and apply again; or replace the machine: naupegos node replace demo demo-cp-2)`
	if err.Error() != want || fail.KindOf(err) != fail.NotReady || fail.Waitable(err) {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
	err = NoAPIBecause("demo", names[:1], waited, []Trouble{{units: []unitTrouble{noisy}}})
	if want := waited.What + " (naupegos logs demo shows what the control-plane machines logged)"; err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestLookAfter(t *testing.T) {
	why := errors.New("because")
	explain := func(ctx context.Context, waited error) error {
		if ctx.Err() != nil {
			t.Error("no time is left to look")
		}
		return errors.Join(why, waited)
	}
	wait := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	ctx, cancel := context.WithTimeout(t.Context(), LookTime+20*time.Millisecond)
	defer cancel()
	if err := WaitThenDiagnose(ctx, wait, explain); !errors.Is(err, why) {
		t.Errorf("a wait that took too long is not explained: %v", err)
	}
	stopped, stop := context.WithCancel(ctx)
	stop()
	if err := WaitThenDiagnose(stopped, wait, explain); errors.Is(err, why) {
		t.Errorf("the user's stop is explained: %v", err)
	}
	at := errors.New("at once")
	ctx, cancel = context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	if err := WaitThenDiagnose(ctx, func(context.Context) error { return at }, explain); !errors.Is(err, at) || errors.Is(err, why) {
		t.Errorf("an error that came in time: %v", err)
	}
}
