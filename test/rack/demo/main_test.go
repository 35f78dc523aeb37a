package main

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	server "github.com/naupegos/naupegos/internal/policy"
)

// TestStoppedByASignal: a signal ends the demo without an error; all resources are removed, the last first, and each removal is reported.
func TestStoppedByASignal(t *testing.T) {
	ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt)
	defer stop()
	var out strings.Builder
	d := &demo{dir: "/d", out: &out}
	var removed []string
	err := d.until(ctx, func(ctx context.Context) error {
		for _, name := range []string{"bridge", "server", "machine"} {
			d.stands(name, "gone", func() error { removed = append(removed, name); return nil })
		}
		if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
			return err
		}
		<-ctx.Done()
		return errors.New("signal: interrupt") // as from a running command
	})
	if err != nil || strings.Join(removed, " ") != "machine server bridge" {
		t.Errorf("removed %v: %v", removed, err)
	}
	if want := "\nStopping.\n  machine: gone\n  server: gone\n  bridge: gone\nImages, disks and logs stay in /d; the next demo uses the images again.\n"; out.String() != want {
		t.Errorf("it says %q", out.String())
	}
}

// TestWhatIsNotRemovedIsTold: a failed removal does not prevent the others, and an earlier failure is reported, too.
func TestWhatIsNotRemovedIsTold(t *testing.T) {
	var out strings.Builder
	d := &demo{out: &out}
	removed := false
	d.stands("bridge", "removed", func() error { removed = true; return nil })
	d.stands("machine", "powered off", func() error { return errors.New("QEMU does not end") })
	err := d.until(t.Context(), func(context.Context) error { return errors.New("no image") })
	if err == nil || err.Error() != "no image\nmachine could not be powered off: QEMU does not end" || !removed || strings.Contains(out.String(), "Stopping") {
		t.Errorf("%v, %t: %q", err, removed, out.String())
	}
}

// TestServerMayReachTheBMCs: the server starts with a policy that allows the machines' BMCs and their provider.
func TestServerMayReachTheBMCs(t *testing.T) {
	cmd, err := (&demo{bin: "naupegos", dir: t.TempDir()}).server("discovery")
	if err != nil {
		t.Fatal(err)
	}
	i := slices.Index(cmd.Args, "--policy")
	if i < 0 {
		t.Fatalf("the server runs without a policy: %q", cmd.Args)
	}
	raw, err := os.ReadFile(cmd.Args[i+1])
	if err != nil {
		t.Fatal(err)
	}
	rules, err := validation.ParseServerPolicy("policy.yaml", raw)
	if err != nil {
		t.Fatal(err)
	}
	p := server.New(rules)
	if !p.BMC(netip.MustParseAddr(controllers)) {
		t.Errorf("it does not allow BMCs at %s:\n%s", controllers, raw)
	}
	doc, err := validation.Parse("cluster.yaml", []byte(document))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Check(t.Context(), server.Credentials{}, doc, nil); err != nil {
		t.Error(err)
	}
}

// TestInterruptsReachCommandsOnce: the terminal sends Ctrl-C to a whole process group, so commands have their own.
func TestInterruptsReachCommandsOnce(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := (&demo{bin: "/bin/sh"}).command(ctx, "-c", "trap 'exit 7' INT; echo; while :; do sleep 0.05; done")
	cmd.Stdout = w
	if err := errors.Join(cmd.Start(), w.Close()); err != nil {
		t.Fatal(err)
	}
	if group, err := syscall.Getpgid(cmd.Process.Pid); err != nil || group != cmd.Process.Pid {
		t.Errorf("it is in group %d: %v", group, err)
	}
	if _, err := r.Read(make([]byte, 1)); err != nil { // it has set its trap
		t.Error(err)
	}
	cancel()
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 7 {
		t.Errorf("%v: it was not interrupted", err)
	}
}
