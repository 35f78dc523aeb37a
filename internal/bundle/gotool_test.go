package bundle

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/testkit"
)

func TestGoRunsInAnEnvironmentOfItsOwn(t *testing.T) {
	for k, v := range map[string]string{"GOFLAGS": "-mod=mod", "GONOSUMDB": "*", "GOEXPERIMENT": "nothing", "CGO_ENABLED": "1", "GOOS": "windows", "GOSUMDB": "off", "GOPROXY": "https://proxy.example.org", "KEPT": "1"} {
		if k != "GOEXPERIMENT" { // an invalid value would stop the go command
			t.Setenv(k, v)
		}
	}
	t.Setenv("TMPDIR", t.TempDir()) // where a user's environment asks for another toolchain
	t.Setenv("GOTOOLCHAIN", "auto")
	testkit.Must(t, os.WriteFile(os.TempDir()+"/go.mod", []byte("module other\ngo 9.9\n"), 0o644))
	g, err := newGoTool(context.Background(), "")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(g.version, "go1.") {
		t.Errorf("version %q", g.version)
	}
	out, err := g.run(context.Background(), t.TempDir(), nil, "env", "GOFLAGS", "GONOSUMDB", "CGO_ENABLED", "GOOS", "GOSUMDB", "GOPROXY")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"-mod=readonly -trimpath -buildvcs=false -gcflags=all=-dwarf=false", "none", "0", "linux", "sum.golang.org", "https://proxy.example.org"}
	if got := strings.Split(strings.TrimSpace(out), "\n"); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if !slices.Contains(g.env, "KEPT=1") {
		t.Error("other settings are lost, such as a proxy's")
	}
	if !slices.Contains(g.env, "GOGC=400") || !slices.ContainsFunc(g.env, func(kv string) bool { return strings.HasPrefix(kv, "GOMEMLIMIT=") }) {
		t.Error("compilers get no memory limit")
	}
}

func TestCommandThatFailsShowsItsLastLines(t *testing.T) {
	g := &goTool{bin: "/bin/sh"}
	var seen []string
	_, err := g.run(context.Background(), t.TempDir(), func(l string) { seen = append(seen, l) }, "-c", "i=0; while [ $i -lt 20 ]; do echo line $i >&2; i=$((i+1)); done; exit 3")
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "line 19") || strings.Contains(err.Error(), "line 3\n") {
		t.Errorf("got %v", err)
	}
	if len(seen) != 20 {
		t.Errorf("saw %d lines", len(seen))
	}
}
