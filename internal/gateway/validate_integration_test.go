//go:build integration

package gateway

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestRealValidators runs haproxy -c and keepalived -t over every rendered file.
func TestRealValidators(t *testing.T) {
	l := newLab(t)
	l.machine("gw", "10.77.0.2")
	for name, p := range map[string]Params{"pair": params(), "ipv6-single": params6(), "web": paramsWeb()} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(l.dir, name)
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			p.CACert = l.ca.PEM()
			for i := range p.Nodes {
				p.Nodes[i].Interface = "eth0" // keepalived -t looks for it
			}
			c, err := Config(p, p.Nodes[0])
			if err != nil {
				t.Fatal(err)
			}
			ca, script := filepath.Join(dir, "ca.crt"), filepath.Join(dir, "check-backends")
			for path, text := range map[string][]byte{
				ca:                                    p.CACert,
				filepath.Join(dir, "haproxy.cfg"):     []byte(strings.ReplaceAll(string(content(t, c, HAProxyPath)), CAPath, ca)),
				filepath.Join(dir, "keepalived.conf"): []byte(strings.ReplaceAll(string(content(t, c, KeepalivedPath)), CheckPath, script)),
				script:                                content(t, c, CheckPath),
			} {
				mode := os.FileMode(0o644)
				if path == script {
					mode = 0o755
				}
				if err := os.WriteFile(path, text, mode); err != nil {
					t.Fatal(err)
				}
			}
			check(t, "haproxy", "-c", "-f", filepath.Join(dir, "haproxy.cfg"))
			check(t, "ip", "netns", "exec", l.prefix+"gw", "keepalived", "-t", "-f", filepath.Join(dir, "keepalived.conf"))
		})
	}
}

// check asserts that a validator succeeds without warnings.
func check(t *testing.T, argv ...string) {
	t.Helper()
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	if text := strings.TrimSpace(string(out)); err != nil || (text != "" && text != "Configuration file is valid") {
		t.Errorf("%s: %v: %s", strings.Join(argv, " "), err, text)
	}
}
