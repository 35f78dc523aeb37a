package process

import (
	"context"
	"os/exec"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/tool"
)

func TestProcessIdentity(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	start, _, err := Stat(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	boot, err := BootID()
	if err != nil {
		t.Fatal(err)
	}
	p := ID{PID: cmd.Process.Pid, Start: start, Boot: boot}
	if !p.Alive() {
		t.Error("a running process is not alive")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := tool.Until(ctx, time.Millisecond, func() (bool, error) { return !p.Alive(), nil }); err != nil {
		t.Error("a zombie counts as alive")
	}
	if err := cmd.Wait(); err == nil {
		t.Error("sleep ended well")
	}
	if (ID{}).Alive() {
		t.Error("the zero process is alive")
	}
}
