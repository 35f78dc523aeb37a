package agent

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestUnitThatStartsPrograms: a unit that starts a program from a file restarts only once it has restarted the program, and the file is placed only
// once the images are there.
func TestUnitThatStartsPrograms(t *testing.T) {
	const pod = "/etc/app/server.yaml"
	with := func(content string) machine.Config {
		c := config()
		c.Files = append(c.Files, machine.File{Path: pod, Mode: 0o600, Content: []byte(content)})
		c.Units[1].Starts = []machine.Start{{File: pod}}
		return c
	}
	other := with("two") // with another image, and a change of the unit's own configuration
	other.Files[0].Content = []byte("two")
	id := "sha256:" + strings.Repeat("fe", 32)
	more := "naupegos.local/server:2 " + id
	other.Images = append(other.Images, machine.Image{Refs: []string{"naupegos.local/server:2"}, Digest: digestOf(more), Size: int64(len(more)), ID: id})

	for name, starts := range map[string]bool{"it starts it again": true, "it never does": false} {
		t.Run(name, func(t *testing.T) {
			f := newFakeHost(t)
			putBlobs(t, f)
			f.process(t, 7, "server", time.Now().Add(-time.Hour))
			f.apply(t, with("one")) // the unit does not run yet: the file is in place when it starts
			testkit.Must(t, os.Chtimes(f.root+pod, time.Time{}, time.Now().Add(-time.Hour)))
			testkit.Must(t, f.agent().PutBlob(t.Context(), digestOf(more), int64(len(more)), strings.NewReader(more)))

			a := f.agent()
			a.startWait = 500 * time.Millisecond
			var began, restarted time.Time
			started := make(chan struct{})
			f.fail = func(argv []string) error {
				switch line := strings.Join(argv, " "); {
				case strings.Contains(line, " images import") && f.content(pod) != "one":
					t.Error("the file is placed before the image is imported")
				case strings.HasPrefix(line, "systemctl restart"):
					restarted = time.Now()
				}
				return nil
			}
			if starts {
				a.startWait = time.Minute
				go func() { // the unit's own doing
					defer close(started)
					for f.content(pod) != "two" {
						time.Sleep(time.Millisecond)
					}
					time.Sleep(50 * time.Millisecond)
					began = time.Now()
					f.process(t, 8, "server", began.Add(20*time.Millisecond)) // the kernel counts in hundredths of seconds
				}()
			}
			from := time.Now()
			report, err := a.Apply(t.Context(), other, false)
			testkit.Must(t, err)
			if !slices.ContainsFunc(report.Changes, func(c machine.Change) bool { return c.Name == "app.service" && c.Action == "restart" }) {
				t.Fatalf("the unit was not to restart: %v", report.Changes)
			}
			if starts {
				<-started
			}
			switch {
			case starts && !restarted.After(began):
				t.Errorf("the unit restarted %v before its program", began.Sub(restarted))
			case !starts && restarted.Sub(from) < a.startWait:
				t.Errorf("the unit restarted after %v already", restarted.Sub(from))
			}
		})
	}
}

// TestProgramsInOrder restarts two programs of which one needs the other: it is stopped first, and started once the other one listens.
func TestProgramsInOrder(t *testing.T) {
	const base, server, last = "/etc/app/base.yaml", "/etc/app/server.yaml", "/etc/app/last.yaml"
	const tcp = "sl\n0: 00000000:094B 00000000:0000 0A 0:0 0:0 0 0 0 111\n" // port 2379
	with := func(version string) machine.Config {
		c := config()
		for _, p := range []string{base, last} {
			c.Files = append(c.Files, machine.File{Path: p, Mode: 0o600, Content: []byte(version)})
		}
		c.Files = append(c.Files, machine.File{Path: server, Mode: 0o600, Content: []byte("always the same")})
		c.Units[1].Starts = []machine.Start{{File: base, Port: 2379}, {File: server, Needs: base}, {File: last}}
		return c
	}
	f := newFakeHost(t)
	putBlobs(t, f)
	old := time.Now().Add(-time.Hour)
	pids := map[string]int{base: 7, server: 8, last: 9}
	for p, pid := range pids {
		f.process(t, pid, programOf(p), old)
	}
	f.apply(t, with("one"))
	for p := range pids {
		testkit.Must(t, os.Chtimes(f.root+p, time.Time{}, old))
	}
	testkit.Must(t, os.MkdirAll(f.root+"/proc/net", 0o755))
	var order []string // events, as the unit sees them
	ended, stop := make(chan struct{}), make(chan struct{})
	go func() { // the unit: it starts and stops programs according to its files
		defer close(ended)
		runs := map[string]string{base: "one", server: "always the same", last: "one"}
		for round, listens := 0, 0; ; round++ {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
			for _, p := range []string{base, server, last} {
				now := f.content(p)
				switch now {
				case runs[p]:
				case "":
					order = append(order, "stop "+programOf(p))
					testkit.Must(t, os.RemoveAll(fmt.Sprintf("%s/proc/%d", f.root, pids[p])))
				default:
					order = append(order, "start "+programOf(p))
					f.process(t, pids[p], programOf(p), time.Now().Add(20*time.Millisecond))
					if p == base {
						listens = round + 10
					}
				}
				runs[p] = now
			}
			if round == listens && runs[base] == "two" { // some time after its start
				order = append(order, "listen")
				write(t, f.root+"/proc/net/tcp", tcp)
			}
		}
	}()
	report := f.apply(t, with("two"))
	testkit.Until(t, time.Minute, time.Millisecond, func() error {
		if f.content(last) != "two" {
			return fmt.Errorf("%s is %q", last, f.content(last))
		}
		return nil
	})
	close(stop)
	<-ended
	// The last program needs no other one, so its file may be placed at any time.
	order = slices.DeleteFunc(order, func(what string) bool { return what == "start last" })
	if got, want := strings.Join(order, ", "), "stop server, start base, listen, start server"; got != want {
		t.Errorf("%s, want %s; reported was %v", got, want, report.Changes)
	}
	for p, want := range map[string]string{base: "two", server: "always the same", last: "two"} {
		if got := f.content(p); got != want {
			t.Errorf("%s holds %q, want %q", p, got, want)
		}
	}
}

// TestInterruptedWhileStopped: a program that is stopped because of another one is started again, even if the run is interrupted in between. The
// other one, which may still be needed, stays unchanged until the next run.
func TestInterruptedWhileStopped(t *testing.T) {
	const base, server = "/etc/app/base.yaml", "/etc/app/server.yaml"
	with := func(version string) machine.Config {
		c := config()
		c.Files = append(c.Files, machine.File{Path: base, Mode: 0o600, Content: []byte(version)}, machine.File{Path: server, Mode: 0o600, Content: []byte(version)})
		c.Units[1].Starts = []machine.Start{{File: base}, {File: server, Needs: base}}
		return c
	}
	f := newFakeHost(t)
	putBlobs(t, f)
	f.process(t, 8, "server", time.Now().Add(-time.Hour)) // it never ends
	f.apply(t, with("one"))
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for f.content(server) != "" {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	if _, err := f.agent().Apply(ctx, with("two"), false); fail.KindOf(err) != fail.Interrupted {
		t.Errorf("interrupted: %v", err)
	}
	if got := f.content(server); got != "two" {
		t.Errorf("the file of the program that was stopped holds %q", got)
	}
	if got := f.content(base); got != "one" {
		t.Errorf("the file of a program that another needs, which has not ended yet, holds %q", got)
	}
	testkit.Must(t, os.RemoveAll(f.root+"/proc/8"))
	f.apply(t, with("two"))
	for _, p := range []string{base, server} {
		if got := f.content(p); got != "two" {
			t.Errorf("after the next run %s holds %q", p, got)
		}
	}
}

// TestUnitThatForgets: another program of the unit's own makes it restart. The new process does not know the programs of the old one, so none of them
// runs then.
func TestUnitThatForgets(t *testing.T) {
	const base, server = "/etc/app/base.yaml", "/etc/app/server.yaml"
	const another = "another binary"
	with := func(binary string) machine.Config {
		c := config()
		for _, p := range []string{base, server} {
			c.Files = append(c.Files, machine.File{Path: p, Mode: 0o600, Content: []byte("always the same")})
		}
		c.Units[1].Starts, c.Units[1].Forgets = []machine.Start{{File: base}, {File: server, Needs: base}}, c.Binaries[0].Path
		c.Binaries[0].Digest, c.Binaries[0].Size = digestOf(binary), int64(len(binary))
		return c
	}
	f := newFakeHost(t)
	putBlobs(t, f)
	testkit.Must(t, f.agent().PutBlob(t.Context(), digestOf(another), int64(len(another)), strings.NewReader(another)))
	f.process(t, 7, "base", time.Now().Add(-time.Hour))
	f.process(t, 8, "server", time.Now().Add(-time.Hour))
	f.apply(t, with(binaryBlob))
	var order []string
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() { // the unit
		defer close(ended)
		pids, runs := map[string]int{base: 7, server: 8}, map[string]bool{base: true, server: true}
		for ; ; time.Sleep(time.Millisecond) {
			select {
			case <-stop:
				return
			default:
			}
			for p, pid := range pids {
				wanted := f.content(p) != ""
				switch {
				case wanted == runs[p]:
				case wanted:
					f.process(t, pid, programOf(p), time.Now().Add(20*time.Millisecond))
				default:
					testkit.Must(t, os.RemoveAll(fmt.Sprintf("%s/proc/%d", f.root, pid)))
				}
				runs[p] = wanted
			}
		}
	}()
	f.fail = func(argv []string) error {
		if argv[0] == "systemctl" && argv[1] == "restart" {
			order = append(order, "restart with "+f.content(base)+f.content(server))
		}
		return nil
	}
	f.apply(t, with(another))
	close(stop)
	<-ended
	if !slices.Equal(order, []string{"restart with "}) {
		t.Errorf("the unit restarted while something ran that it forgets: %q", order)
	}
	for _, p := range []string{base, server} {
		if got := f.content(p); got != "always the same" {
			t.Errorf("%s holds %q afterwards", p, got)
		}
	}
}

// TestAllOfThemChange: all programs change and the unit restarts, while none of them runs.
func TestAllOfThemChange(t *testing.T) {
	const base, server = "/etc/app/base.yaml", "/etc/app/server.yaml"
	with := func(version string) machine.Config {
		c := config()
		c.Files[0].Content = []byte(version) // which the unit watches
		for _, p := range []string{base, server} {
			c.Files = append(c.Files, machine.File{Path: p, Mode: 0o600, Content: []byte(version)})
		}
		c.Units[1].Starts = []machine.Start{{File: base}, {File: server, Needs: base}}
		return c
	}
	f := newFakeHost(t)
	putBlobs(t, f)
	pids := map[string]int{base: 7, server: 8}
	for p, pid := range pids {
		f.process(t, pid, programOf(p), time.Now().Add(-time.Hour))
	}
	f.apply(t, with("one"))
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() { // the unit
		defer close(ended)
		for ; ; time.Sleep(time.Millisecond) {
			select {
			case <-stop:
				return
			default:
			}
			for p, pid := range pids {
				switch f.content(p) {
				case "":
					testkit.Must(t, os.RemoveAll(fmt.Sprintf("%s/proc/%d", f.root, pid)))
				case "two":
					f.process(t, pid, programOf(p), time.Now().Add(20*time.Millisecond))
				}
			}
		}
	}()
	restarts := 0
	f.fail = func(argv []string) error {
		if strings.HasPrefix(strings.Join(argv, " "), "systemctl restart") {
			restarts++
			for p := range pids {
				if now := f.content(p); now != "" {
					t.Errorf("the unit restarts while %s says %q", p, now)
				}
			}
		}
		return nil
	}
	f.apply(t, with("two"))
	close(stop)
	<-ended
	if restarts != 1 || f.content(base) != "two" || f.content(server) != "two" {
		t.Errorf("the unit restarted %d times; its files say %q and %q", restarts, f.content(base), f.content(server))
	}
}

// TestEndedProgram: a unit restarts if its program does not run and the program's file changes; not if the program runs, or if the file is new.
func TestEndedProgram(t *testing.T) {
	const pod = "/etc/app/server.yaml"
	with := func(content string) machine.Config {
		c := config()
		if content != "" {
			c.Files = append(c.Files, machine.File{Path: pod, Mode: 0o600, Content: []byte(content)})
		}
		c.Units[1].Starts = []machine.Start{{File: pod}}
		return c
	}
	for name, test := range map[string]struct {
		before   string
		runs     bool
		restarts bool
	}{
		"it has ended": {before: "bad", restarts: true},
		"it runs":      {before: "bad", runs: true},
		"it is new":    {},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeHost(t)
			putBlobs(t, f)
			f.apply(t, with(test.before))
			if test.runs {
				f.process(t, 7, "server", time.Now().Add(time.Hour)) // so no one waits for its restart
			}
			var restarts []string
			f.fail = func(argv []string) error {
				if len(argv) > 1 && argv[1] == "restart" {
					restarts = append(restarts, f.content(pod))
				}
				return nil
			}
			report := f.apply(t, with("good"))
			planned := slices.ContainsFunc(report.Changes, func(c machine.Change) bool {
				return c.Name == "app.service" && c.Action == "restart" && strings.Contains(c.Why, "server, whose file changed, does not run")
			})
			if planned != test.restarts || (len(restarts) > 0) != test.restarts {
				t.Errorf("planned: %t, restarts: %q, want %t", planned, restarts, test.restarts)
			}
			if test.restarts && restarts[0] != "good" {
				t.Errorf("the unit restarted while its file said %q", restarts[0])
			}
		})
	}
}
