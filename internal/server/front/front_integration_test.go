//go:build integration

package front_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/testkit"
)

// running is a server with its front process.
type running struct {
	*exec.Cmd
	state string
	http  string
	said  *bytes.Buffer
}

// start runs the command as it is released, without cgo, and waits until it serves.
func start(t *testing.T, program string) *running {
	t.Helper()
	l := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	r := &running{state: t.TempDir(), http: l.Addr().String(), said: &bytes.Buffer{}}
	testkit.Must(t, l.Close())
	r.Cmd = exec.Command(program, "server", "--state-dir", r.state, "--listen-http", r.http, "--listen-https", "127.0.0.1:0")
	r.Env = append(os.Environ(), "NAUPEGOS_TEST_PASSWORD="+testkit.Secret)
	r.Stdout, r.Stderr = r.said, r.said
	testkit.Must(t, r.Start())
	t.Cleanup(func() {
		if r.ProcessState == nil {
			_ = r.Process.Kill()
			_ = r.Wait()
		}
	})
	testkit.Until(t, time.Minute, 50*time.Millisecond, func() error {
		code, body, err := r.ask(http.MethodGet, "/healthz", "")
		if err == nil && code != http.StatusOK {
			err = fmt.Errorf("%d: %s", code, body)
		}
		return err
	})
	return r
}

func (r *running) ask(method, path, body string) (int, string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+r.http+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(data), err
}

// front is the front process' ID.
func (r *running) front(t *testing.T) int {
	t.Helper()
	var pid int
	testkit.Until(t, 20*time.Second, 20*time.Millisecond, func() error {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", r.Process.Pid))
		all := strings.Fields(string(data))
		if err == nil && len(all) == 0 { // another thread has started it
			var out []byte
			out, err = exec.Command("pgrep", "-P", strconv.Itoa(r.Process.Pid)).Output()
			all = strings.Fields(string(out))
		}
		if err != nil || len(all) != 1 {
			return fmt.Errorf("%d children: %v", len(all), err) //nolint:errorlint // there may be none
		}
		pid, err = strconv.Atoi(all[0])
		return err
	})
	return pid
}

// TestFront runs the command, which it builds once.
func TestFront(t *testing.T) {
	program := filepath.Join(t.TempDir(), "naupegos")
	testkit.Must(t, testkit.Program(program, "cmd/naupegos", ""))
	for name, test := range map[string]func(*testing.T, string){"holds nothing": holdsNothing, "is killed": isKilled, "ends with the server": endsWithServer, "leads machines": leadsMachines} {
		t.Run(name, func(t *testing.T) { test(t, program) })
	}
}

// holdsNothing looks at the front process of a server that root has started: another user, no capabilities, no environment, and no file of the
// state directory. The main process' socket answers only the front process.
func holdsNothing(t *testing.T, program string) {
	r := start(t, program)
	proc := fmt.Sprintf("/proc/%d/", r.front(t))
	status := string(testkit.Value(os.ReadFile(proc + "status"))(t))
	for _, want := range []string{"CapPrm:\t0000000000000000", "CapEff:\t0000000000000000", "CapAmb:\t0000000000000000", "NoNewPrivs:\t1", "Groups:\t \n"} {
		if !strings.Contains(status, want) {
			t.Errorf("it lacks %q:\n%s", want, status)
		}
	}
	if strings.Contains(status, "Uid:\t0") || strings.Contains(status, "Gid:\t0") {
		t.Errorf("it is root's:\n%s", status)
	}
	if env := testkit.Value(os.ReadFile(proc + "environ"))(t); bytes.Contains(env, []byte(testkit.Secret)) || bytes.Contains(env, []byte("HOME=")) {
		t.Errorf("its environment is %q", env)
	}
	if args := testkit.Value(os.ReadFile(proc + "cmdline"))(t); bytes.Contains(args, []byte(r.state)) {
		t.Errorf("its arguments are %q", args)
	}
	for _, f := range testkit.Value(os.ReadDir(proc + "fd"))(t) {
		if to, err := os.Readlink(proc + "fd/" + f.Name()); err == nil && strings.HasPrefix(to, r.state) {
			t.Errorf("it has %s open", to)
		}
	}
	sockets := string(testkit.Value(os.ReadFile("/proc/net/unix"))(t))
	asked := 0
	for line := range strings.Lines(sockets) {
		_, name, found := strings.Cut(strings.TrimSpace(line), " @naupegos-front-")
		if !found {
			continue
		}
		asked++
		var d net.Dialer
		if conn, err := d.DialContext(t.Context(), "unix", "@naupegos-front-"+name); err == nil {
			_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
			_, _ = io.WriteString(conn, "GET /.front/catalog HTTP/1.0\r\n\r\n")
			if answer, err := io.ReadAll(conn); len(answer) > 0 || os.IsTimeout(err) {
				t.Errorf("%s answers a stranger: %q, %v", name, answer, err)
			}
			_ = conn.Close()
		}
	}
	if asked == 0 {
		t.Errorf("there is no socket:\n%s", sockets)
	}
	if code, body, err := r.ask(http.MethodGet, "/.front/catalog", ""); err != nil || code != http.StatusNotFound {
		t.Errorf("what is the front's alone is answered: %d %s %v", code, body, err)
	}
}

const discovery = `{"boot-info": {"uuid": "8023fdab-5dcd-4ba0-a5c3-0c43a6a3a8%02x", "mac": "52:54:00:00:00:%02x", "random-id": "one"},
 "interfaces": [{"name": "eth0", "mac": "52:54:00:00:00:%02x", "ipv4": "10.0.0.9", "cidrv4": "10.0.0.9/24", "netmask": 24, "gateway": "", "fqdn": []}],
 "disks": [], "lldp": {"is_file": false, "data": {"interfaces": []}}, "ignition-journal": ["a line"]}`

// isKilled kills the front process in the middle of discoveries. It comes back at the same address, says so, and machines that ask again
// are all known, each once; nothing is half-written.
func isKilled(t *testing.T, program string) {
	r := start(t, program)
	const machines = 40
	done := make(chan int, machines)
	for i := range machines {
		go func() {
			body := fmt.Sprintf(discovery, i, i, i)
			for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) { // a machine asks again
				if code, _, err := r.ask(http.MethodPost, "/discovery", body); err == nil && code != http.StatusBadGateway && code != http.StatusServiceUnavailable {
					done <- code
					return
				}
			}
			done <- 0
		}()
	}
	first := r.front(t)
	testkit.Must(t, syscall.Kill(first, syscall.SIGKILL))
	for range machines {
		if code := <-done; code != http.StatusOK {
			t.Errorf("a discovery ended with %d", code)
		}
	}
	testkit.Until(t, 30*time.Second, 100*time.Millisecond, func() error {
		if code, body, err := r.ask(http.MethodGet, "/healthz", ""); err != nil || code != http.StatusOK {
			return fmt.Errorf("%d %s %v", code, body, err) //nolint:errorlint // there may be none
		}
		return nil
	})
	if again := r.front(t); again == first {
		t.Error("the front process was not killed")
	}
	testkit.Must(t, r.Process.Signal(syscall.SIGTERM))
	testkit.Must(t, r.Wait())
	if !strings.Contains(r.said.String(), "has ended, and is started again") {
		t.Errorf("the log says nothing:\n%s", r.said)
	}
	if err := syscall.Kill(first, 0); err == nil {
		t.Error("a front process stays")
	}
}

// endsWithServer kills the server: the front process ends with the server, however that ends.
func endsWithServer(t *testing.T, program string) {
	r := start(t, program)
	pid := r.front(t)
	testkit.Must(t, r.Process.Kill())
	_ = r.Wait()
	testkit.Until(t, 45*time.Second, 50*time.Millisecond, func() error {
		if syscall.Kill(pid, 0) == nil {
			return fmt.Errorf("process %d is there", pid)
		}
		return nil
	})
}
