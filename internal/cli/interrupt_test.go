package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/cli/verbs"
	"github.com/naupegos/naupegos/internal/testkit"
)

// silent are commands by what they wait for, each with arguments.
var silent = map[string][]string{
	"store": { // a database that does not answer
		"apply -f cluster.yaml --yes", "autoscale demo --listen 127.0.0.1:18086", "backup create demo", "backup list demo", "backup prune demo --yes", "backup rehearse demo",
		"backup restore demo --from latest --yes", "backup show demo latest", "backup volumes demo", "certs issuer demo", "certs list demo", "certs rotate demo --yes", "describe demo", "destroy demo --yes",
		"diff -f cluster.yaml", "doctor", "document demo", "etcd recover demo --from cp-1 --yes", "events demo", "events demo --watch", "handover demo out", "history demo", "kubeconfig demo",
		"kubectl demo -- get nodes", "logs demo", "machine kill demo cp-1 --yes", "machine reboot demo cp-1 --yes", "machine start demo cp-1", "machine stop demo cp-1 --yes",
		"node add demo --pool a --yes", "node cordon demo cp-1", "node drain demo cp-1", "node list demo", "node remove demo cp-1 --yes", "node replace demo cp-1 --yes", "node uncordon demo cp-1",
		"plan -f cluster.yaml", "plan demo", "release demo out --yes", "renew demo --yes", "repair demo --yes", "reset demo --machine cp-1 --yes", "server", "server audit export", "server audit key", "server audit verify",
		"server credential list", "server follow list", "server follow show demo", "server session list", "server status", "server token create x", "server token list", "server token revoke x", "server webhook list", "ssh demo cp-1", "ssh-config demo", "status demo",
		"store backup b.age --recipient age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p", "support demo", "test demo", "top --once", "ui --no-open", "update demo --yes", "upgrade demo --finish --yes", "users demo",
	},
	"server": { // a server that does not answer
		"apply -f cluster.yaml --yes", "backup create demo", "backup list demo", "destroy demo --yes", "diff -f cluster.yaml", "document demo", "events demo", "handover demo out", "history demo", "kubeconfig demo",
		"machine approve x", "machine assign x --cluster demo", "machine forget x --yes", "machine label x a=b", "machine list", "machine locks", "machine name x y", "machine power x on --yes", "machine reject x",
		"machine show x", "machine unassign x", "node list demo", "plan -f cluster.yaml", "status demo", "support demo", "top --once", "users demo", "login",
	},
	"input": {"apply -f - --yes", "diff -f -", "plan -f -", "validate -f -"}, // standard input that does not end
}

// TestInterrupted interrupts commands that wait, each with a real signal. Each ends with one sentence: what was interrupted, whether anything was changed,
// and how to resume; and with status 130.
func TestInterrupted(t *testing.T) {
	exe := testkit.Value(exec.LookPath("naupegos"))(t)
	dir := t.TempDir()
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "cluster.yaml"), []byte("apiVersion: naupegos.dev/v1alpha1\nkind: Cluster\nmetadata: {name: demo}\nspec:\n  provider: {local: {}}\n  workers: [{name: a}]\n"), 0o600))
	signals := []syscall.Signal{syscall.SIGINT, syscall.SIGTERM}
	for waits, lines := range silent {
		for i, line := range lines {
			t.Run(waits+" "+line, func(t *testing.T) {
				t.Parallel()
				at, asked := silence(t)
				args := strings.Fields(line)
				json := i%2 == 1 && takesJSON(args)
				if json {
					args = append(args, "-o", "json")
				}
				c := exec.Command(exe, args...)
				c.Dir = dir
				c.Env = append(os.Environ(), "HOME="+dir, "XDG_STATE_HOME="+dir+"/s", "XDG_CACHE_HOME="+dir+"/c", "XDG_CONFIG_HOME=", "NAUPEGOS_STORE=", "NAUPEGOS_SERVER=", "NAUPEGOS_TOKEN=x")
				switch waits {
				case "store":
					c.Env = append(c.Env, "NAUPEGOS_STORE=postgres://u:p@"+at+"/x?sslmode=disable")
				case "server":
					c.Env = append(c.Env, "NAUPEGOS_SERVER=https://"+at)
				}
				var out, errs bytes.Buffer
				c.Stdout, c.Stderr = &out, &errs
				in := testkit.Value(c.StdinPipe())(t)
				testkit.Must(t, c.Start())
				ended := make(chan struct{})
				go func() { _ = c.Wait(); close(ended) }() // its status is looked at below
				defer in.Close()
				defer c.Process.Kill() // almost always over
				if waits == "input" {
					writes(t, in, asked)
				}
				select {
				case <-asked:
				case <-ended:
					t.Fatalf("it did not wait: %s", errs.String())
				}
				testkit.Must(t, c.Process.Signal(signals[i%2]))
				<-ended
				wellEnded(t, c.ProcessState.ExitCode(), out.String(), errs.String(), json)
			})
		}
	}
}

// writes sends more of standard input than a pipe holds: once it is sent, the command reads.
func writes(t *testing.T, in interface{ Write([]byte) (int, error) }, asked chan<- struct{}) {
	t.Helper()
	go func() {
		if _, err := in.Write(bytes.Repeat([]byte("# comment\n"), 100<<10/10)); err == nil {
			asked <- struct{}{}
		}
	}()
}

// silence listens at an address, and answers nothing there.
func silence(t *testing.T) (at string, asked chan struct{}) {
	t.Helper()
	l := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { l.Close() })
	asked = make(chan struct{}, 64)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() })
			if _, err := bufio.NewReader(c).ReadByte(); err == nil {
				asked <- struct{}{}
			}
		}
	}()
	return l.Addr().String(), asked
}

func wellEnded(t *testing.T, code int, out, errs string, asJSON bool) {
	t.Helper()
	if code != 130 {
		t.Errorf("exit status %d", code)
	}
	text := errs
	if asJSON {
		var e struct{ Error, Kind string }
		if err := json.Unmarshal([]byte(errs), &e); err != nil || e.Kind != "interrupted" {
			t.Errorf("%q is no JSON error of an interruption: %v", errs, err)
		}
		if out != "" && !json.Valid([]byte(out)) {
			t.Errorf("standard output is no JSON: %q", out)
		}
		text = e.Error
	}
	said := 0
	for line := range strings.Lines(text) {
		if strings.Contains(line, " was interrupted: ") && strings.HasSuffix(strings.TrimSpace(line), ")") {
			said++
		}
	}
	if said != 1 || strings.Contains(text, "context canceled") {
		t.Errorf("%d sentences about the interruption: %q", said, text)
	}
}

// takesJSON reports whether a command has -o json.
func takesJSON(args []string) bool {
	if slices.Contains(args, "--") {
		return false
	}
	c, _, err := New(&App{}).Find(args)
	if err != nil {
		return false
	}
	f := c.Flags().Lookup("output")
	return f != nil && f.Shorthand == "o"
}

// instant are commands that wait for nothing that a test could withhold, or that their own tests interrupt: for apt, a cloud, an age plugin.
var instant = strings.Fields(`completion-bash completion-fish completion-powershell completion-zsh explain get-token help init logout schema use version
	backup-key bundle-add-chart bundle-add-image bundle-add-manifest bundle-build bundle-export bundle-import bundle-inspect bundle-list bundle-pull bundle-remove bundle-verify
	image-build image-discovery image-system image-upload import machine-bmc machine-install machine-journal machine-lock-token-create machine-lock-token-list machine-lock-token-revoke machine-maintenance
	machine-reinstall machine-schedule machine-strategy machine-unlock server-backup server-credential-add server-credential-remove server-follow-add server-follow-approve server-follow-now server-follow-remove server-import-matchbox server-restore server-session-end
	server-webhook-add server-webhook-remove server-webhook-test
	store-move store-protect store-restore store-rotate`)

// TestInterruptedComplete: each command is in one of the lists above, so that a new one is thought of.
func TestInterruptedComplete(t *testing.T) {
	known := map[string]bool{}
	root := New(&App{})
	for _, lines := range silent {
		for _, line := range lines {
			c, _, err := root.Find(strings.Fields(line))
			testkit.Must(t, err)
			known[verbs.Path(c)] = true
		}
	}
	for _, name := range instant {
		known[strings.ReplaceAll(name, "-", " ")] = true
	}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			walk(sub)
		}
		path := verbs.Path(c)
		if c.Runnable() && !c.Hidden && !c.HasSubCommands() && !known[path] && !known[strings.ReplaceAll(path, "-", " ")] {
			t.Errorf("%s: add it to the commands that are interrupted, or to those that wait for nothing", path)
		}
	}
	walk(root)
}
