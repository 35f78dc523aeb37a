//go:build integration

package front_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/testkit"
)

// TestShutIn runs a front process that tries to get out: started by root, and by an ordinary user, as under the Debian unit, where both processes have one user.
func TestShutIn(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("becomes other users: root only")
	}
	dir, err := os.MkdirTemp("/tmp", "captive") // t.TempDir is closed to other users
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Must(t, os.RemoveAll(dir)) })
	testkit.Must(t, os.Chmod(dir, 0o755)) // others have to reach the program
	program := filepath.Join(dir, "captive")
	testkit.Must(t, testkit.Program(program, "internal/server/front/testdata/captive", ""))
	for name, uid := range map[string]int{"of root": 0, "of a user": 4321} {
		t.Run(name, func(t *testing.T) {
			state := filepath.Join(dir, fmt.Sprint(uid))
			for path, text := range map[string]string{"secret": "the store's", "assets/kernel": "kernel", "leases/leases": "ours"} {
				path = filepath.Join(state, path)
				testkit.Must(t, os.MkdirAll(filepath.Dir(path), 0o700))
				testkit.Must(t, os.WriteFile(path, []byte(text), 0o600))
			}
			testkit.Must(t, os.Symlink("../secret", filepath.Join(state, "assets/link")))
			testkit.Must(t, exec.Command("chown", "-R", fmt.Sprint(uid), state).Run())
			shutIn(t, program, state, uid)
		})
	}
}

func shutIn(t *testing.T, program, state string, uid int) {
	cmd := exec.Command(program, filepath.Join(state, "leases"), filepath.Join(state, "assets"))
	cmd.Env = []string{"SECRET=" + testkit.Secret}
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	secret := testkit.Value(os.OpenFile(state+"/secret", os.O_RDWR, 0))(t)
	defer secret.Close()
	for range 8 { // descriptors 3 to 10, of which the front process's own replace the first
		cmd.ExtraFiles = append(cmd.ExtraFiles, secret)
	}
	out := testkit.Value(cmd.StdoutPipe())(t)
	testkit.Must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	address := strings.TrimSpace(testkit.Value(bufio.NewReader(out).ReadString('\n'))(t))
	l := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { testkit.Must(t, l.Close()) })
	parent := fmt.Sprint(cmd.Process.Pid)
	for _, c := range []struct {
		do, of string
		ok     bool
		has    string
	}{
		{"read", state + "/secret", false, ""}, {"read", "/proc/self/fd/4/../secret", false, ""}, {"open file", "9", false, ""}, {"open file", "10", false, ""}, {"read", state + "/assets/kernel", false, ""}, {"read", "/etc/passwd", false, ""},
		{"read", "/proc/" + parent + "/environ", false, ""}, {"read", "/proc/" + parent + "/mem", false, ""}, {"list", state, false, ""}, {"list", "/", false, ""},
		{"write", state + "/secret", false, ""}, {"write", state + "/new", false, ""}, {"write", "/tmp/captive-theirs", false, ""},
		{"read", "/proc/self/fd/4/leases", true, "ours"}, {"write", "/proc/self/fd/4/leases", true, ""}, {"write", "/proc/self/fd/4/new", true, ""},
		{"dial", l.Addr().String(), false, ""}, {"dial mptcp", l.Addr().String(), false, ""}, {"listen", "127.0.0.1:0", false, ""}, {"packets", "127.0.0.1:0", true, ""}, {"packets", ":0", true, ""}, {"packets", "0.0.0.0:0", true, ""}, {"signal", parent, false, ""}, {"trace", parent, false, ""}, {"run", "/bin/true", false, ""},
		{"namespace", "", false, ""}, {"namespace by clone3", "", false, ""},
		{"root", "", false, ""}, {"raw", "", false, ""}, {"environment", "", true, ""},
		{"asset", "kernel", true, "kernel"}, {"asset", "link", false, ""}, {"asset", "../secret", false, ""}, {"asset", "nothing", false, ""}, {"asset", "a\nb", false, ""},
	} {
		code, body := get(t, "http://"+address+"/?do="+url.QueryEscape(c.do)+"&of="+url.QueryEscape(c.of))
		if (code == http.StatusOK) != c.ok || c.ok && body != c.has {
			t.Errorf("%s %q: %d %q", c.do, c.of, code, body)
		}
	}
	if data := testkit.Value(os.ReadFile(state + "/secret"))(t); string(data) != "the store's" {
		t.Errorf("the secret is %q", data)
	}
}

func get(t *testing.T, at string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	resp := testkit.Value(http.DefaultClient.Do(testkit.Value(http.NewRequestWithContext(ctx, http.MethodGet, at, nil))(t)))(t)
	defer resp.Body.Close()
	return resp.StatusCode, string(testkit.Value(io.ReadAll(resp.Body))(t))
}
