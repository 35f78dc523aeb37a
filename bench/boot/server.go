package main

import (
	"bufio"
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
	"time"
)

// rack writes the data directory of n machines: a group for each machine's MAC address, profiles and templates.
func rack(dir string, n int) error {
	files := map[string]string{
		"groups/default.json":     `{"id": "default", "profile": "discover"}`,
		"profiles/discover.json":  `{"id": "discover", "boot": {"kernel": "/assets/vmlinuz", "initrd": ["/assets/initrd.img"], "args": ["console=ttyS0"]}}`,
		"profiles/worker.json":    `{"id": "worker", "ignition_id": "worker.ign", "generic_id": "worker.txt", "boot": {"kernel": "/assets/vmlinuz", "initrd": ["/assets/initrd.img"], "args": ["console=ttyS0", "ignition.firstboot"]}}`,
		"ignition/worker.ign":     `{"ignition": {"version": "3.3.0"}, "systemd": {"units": [{"name": "a.service", "enabled": true, "contents": "[Service]\nExecStart=/bin/true\n"}]}}`,
		"generic/worker.txt":      "name={{.name}}\nrack={{.rack}}\nmac={{.request.query.mac}}\n",
		"profiles/installed.json": `{"id": "installed", "ignition_id": "worker.ign", "generic_id": "worker.txt", "boot": {"kernel": "/assets/installed", "initrd": []}}`,
	}
	for i := range n {
		files[fmt.Sprintf("groups/m%05d.json", i)] = fmt.Sprintf(`{"id": "m%05d", "name": "machine %d", "profile": "worker", "selector": {"mac": %q}, "metadata": {"name": "m%d", "rack": "r%d"}}`, i, i, mac(i), i, i/40)
	}
	for name, content := range files {
		path := dir + "/" + name
		if err := os.MkdirAll(path[:strings.LastIndex(path, "/")], 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func mac(i int) string { return fmt.Sprintf("52:54:00:%02x:%02x:%02x", i>>16, i>>8&255, i&255) }

// server is the process of one side.
type server struct {
	url  string
	cmd  *exec.Cmd
	said bytes.Buffer
}

// start runs one side on a free loopback port and returns once it answers.
func start(ctx context.Context, program string, args func(addr string) []string) (*server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		return nil, err
	}
	s := &server{url: "http://" + addr, cmd: exec.CommandContext(ctx, program, args(addr)...)}
	s.cmd.Stderr = &s.said
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(time.Minute)
	for {
		select {
		case <-tick.C:
			if resp, err := http.Get(s.url); err == nil { //nolint:noctx // ends with the process
				return s, resp.Body.Close()
			}
		case <-limit:
			s.stop()
			return nil, fmt.Errorf("%s did not answer within a minute: %s", program, s.said.String())
		case <-ctx.Done():
			s.stop()
			return nil, ctx.Err()
		}
	}
}

func (s *server) stop() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

// memory returns the peak memory of the process and its children in MiB, or 0 if the kernel does not report it.
func (s *server) memory() int {
	kib := peak(s.cmd.Process.Pid)
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", s.cmd.Process.Pid)) // the pattern is well-formed
	for _, list := range lists {
		data, _ := os.ReadFile(list) // an ended thread has no such file
		for pid := range strings.FieldsSeq(string(data)) {
			if n, err := strconv.Atoi(pid); err == nil {
				kib += peak(n)
			}
		}
	}
	return kib / 1024
}

// peak returns the peak memory of a process in KiB.
func peak(pid int) int {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var kib int
		if _, err := fmt.Sscanf(lines.Text(), "VmHWM: %d kB", &kib); err == nil {
			return kib
		}
	}
	return 0
}

// same sends both sides the same requests and checks that the answers are equal.
func same(ctx context.Context, ours, theirs string, n int) error {
	for _, i := range []int{0, n / 2, n - 1, n} {
		for _, path := range paths {
			a, err := get(ctx, ours+path+query(i))
			if err != nil {
				return err
			}
			b, err := get(ctx, theirs+path+query(i))
			if err != nil {
				return err
			}
			if a != b {
				return fmt.Errorf("%s%s: naupegos answers %q, matchbox %q", path, query(i), a, b)
			}
		}
	}
	return nil
}

func get(ctx context.Context, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.Status + " " + string(body), err
}
