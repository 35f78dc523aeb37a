package local

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/testkit"
)

// TestSupervisorInheritsNothing leaves a pipe open for child processes, as shells do: a supervisor, which outlives the command, must not keep it
// open.
func TestSupervisorInheritsNothing(t *testing.T) {
	r, w, err := os.Pipe()
	testkit.Must(t, err)
	defer r.Close()
	defer w.Close()
	if _, err := unix.FcntlInt(w.Fd(), unix.F_SETFD, 0); err != nil {
		t.Fatal(err)
	}
	want := testkit.Value(os.Readlink("/proc/self/fd/" + strconv.Itoa(int(w.Fd()))))(t)
	log := testkit.Value(os.Create(filepath.Join(t.TempDir(), "console.log")))(t)
	defer log.Close()
	testkit.Must(t, keepDescriptors())
	cmd := supervisorCommand([]string{"ls", "-l", "/proc/self/fd"}, t.TempDir(), log)
	testkit.Must(t, cmd.Run())
	if text := string(testkit.Value(os.ReadFile(log.Name()))(t)); !strings.Contains(text, "console.log") || strings.Contains(text, want) {
		t.Errorf("%s is open in a supervisor:\n%s", want, text)
	}
}
