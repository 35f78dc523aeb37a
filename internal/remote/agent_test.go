package remote

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/testkit"
)

// agentScript is a fake naupegos-agent: it keeps its state beside itself.
var agentScript = strings.ReplaceAll(`#!/bin/sh
dir=${0%/*}
case "$1 $2" in
"version --sha256") sha256sum "$0" | cut -d' ' -f1;;
"endless ") yes;;
"pause server") : > "$dir/paused"; echo paused; cat; rm "$dir/paused";;
"facts ") echo '{"hostname":"m","cpus":2}';;
"blob put") cat > "$dir/blob"; echo "$3 $4 $5" > "$dir/put";;
"apply --dry-run") echo '{"hostname":"m","cpus":2}'; cat > "$dir/cfg"; [ -s "$dir/cfg" ] || exit 0; echo '{"changes":[{"kind":"file","name":"/x","action":"create"}],"missing":["BLOB"]}';;
"apply ") echo '{"hostname":"m","cpus":2}'; cat > "$dir/cfg"; [ -s "$dir/cfg" ] || exit 0
  if [ -e "$dir/fail" ]; then
    echo "some noise" >&2
    echo '{"kind":"conflict","what":"take the lock: busy","where":"/lock","hint":"wait"}' >&2; exit 6
  elif [ -e "$dir/wants" ]; then cat "$dir/wants"
  elif [ -e "$dir/blob" ]; then echo '{"digest":"sha256:d","changes":[{"kind":"file","name":"/x","action":"create"}]}'
  else echo '{"missing":["BLOB"]}'; fi;;
*) echo "unknown $*" >&2; exit 3;;
esac
`, "BLOB", theBlob)

// theBlob is the blob that agentScript lacks at first.
var theBlob = "sha256:" + strings.Repeat("b", 64)

type agentHost struct {
	*testServer
	d    *Dialer
	h    Host
	dir  string // path of the agent
	dirs string // directory of agents
}

func newAgentHost(t *testing.T) *agentHost {
	t.Helper()
	key := newKey(t)
	a := &agentHost{testServer: newServer(t, key.PublicKey()), dirs: t.TempDir()}
	a.Command = func(c string) string { return strings.ReplaceAll(c, machine.AgentDir, a.dirs) }
	local := filepath.Join(t.TempDir(), "naupegos-agent")
	testkit.Must(t, os.WriteFile(local, []byte(agentScript), 0o644))
	a.d, a.h = dialer(t, Options{AgentPath: local}, key), a.host("m")
	bin, err := a.d.AgentPath()
	testkit.Must(t, err)
	a.dir = strings.Replace(filepath.Dir(bin), machine.AgentDir, a.dirs, 1)
	return a
}

// always returns a configuration that depends on no facts.
func always(c machine.Config) func(machine.Facts) (machine.Config, error) {
	return func(machine.Facts) (machine.Config, error) { return c, nil }
}

// TestApplyRendersForFacts: one call of the agent carries the machine's facts, the configuration for them, and the report. A machine without a
// configuration gets none.
func TestApplyRendersForFacts(t *testing.T) {
	a := newAgentHost(t)
	_, err := a.d.Facts(t.Context(), a.h)
	testkit.Must(t, err)
	before := a.Execs.Load()
	report, err := a.d.Apply(t.Context(), a.h, func(f machine.Facts) (machine.Config, error) {
		return machine.Config{Machine: fmt.Sprintf("%s with %d processors", f.Hostname, f.CPUs)}, nil
	}, ApplyOptions{DryRun: true})
	if err != nil || len(report.Changes) != 1 {
		t.Errorf("report %+v: %v", report, err)
	}
	if n := a.Execs.Load() - before; n != 1 {
		t.Errorf("%d commands", n)
	}
	sent := testkit.Value(os.ReadFile(filepath.Join(a.dir, "cfg")))(t)
	if !strings.Contains(string(sent), "m with 2 processors") {
		t.Errorf("sent %s", sent)
	}
	unfit := errors.New("two processors are too few")
	_, err = a.d.Apply(t.Context(), a.h, func(machine.Facts) (machine.Config, error) { return machine.Config{}, unfit }, ApplyOptions{})
	if !errors.Is(err, unfit) {
		t.Errorf("error %v", err)
	}
	if sent := testkit.Value(os.ReadFile(filepath.Join(a.dir, "cfg")))(t); len(sent) > 0 {
		t.Errorf("sent %s", sent)
	}
	script := strings.ReplaceAll(agentScript, `echo '{"hostname":"m","cpus":2}'; cat`, `echo '{"kind":"refused","what":"look at the machine"}' >&2; exit 4; cat`)
	testkit.Must(t, os.WriteFile(filepath.Join(a.dir, "naupegos-agent"), []byte(script), 0o755))
	_, err = a.d.Apply(t.Context(), a.h, func(machine.Facts) (machine.Config, error) {
		t.Error("rendered without facts")
		return machine.Config{}, nil
	}, ApplyOptions{})
	testkit.Fails(t, err, fail.Refused, "m (", "look at the machine")
	script = strings.ReplaceAll(agentScript, `echo '{"hostname":"m","cpus":2}'; cat`, `cat /dev/zero; cat`)
	testkit.Must(t, os.WriteFile(filepath.Join(a.dir, "naupegos-agent"), []byte(script), 0o755))
	a.d.most = 4 << 20
	_, err = a.d.Apply(t.Context(), a.h, always(machine.Config{}), ApplyOptions{})
	testkit.Fails(t, err, fail.Refused, "says more than")
}

func TestAgentIsUploadedOnce(t *testing.T) {
	a := newAgentHost(t)
	f, err := a.d.Facts(t.Context(), a.h)
	if err != nil || f.Hostname != "m" || f.CPUs != 2 {
		t.Fatalf("facts %+v: %v", f, err)
	}
	before := a.Execs.Load()
	_, err = a.d.Facts(t.Context(), a.h)
	testkit.Must(t, err)
	if n := a.Execs.Load() - before; n != 1 {
		t.Errorf("%d commands although the agent is installed", n)
	}
	entries, err := os.ReadDir(a.dir)
	testkit.Must(t, err)
	if len(entries) != 1 || entries[0].Name() != "naupegos-agent" {
		t.Errorf("left beside the agent: %v", entries)
	}
	testkit.Must(t, os.Chmod(filepath.Join(a.dir, "naupegos-agent"), 0o644)) // 126: can't be run
	_, err = a.d.Facts(t.Context(), a.h)
	testkit.Must(t, err)
}

func TestApplyUploadsBlobs(t *testing.T) {
	a := newAgentHost(t)
	cfg := machine.Config{Machine: "m", Files: []machine.File{{Path: "/x", Mode: 0o644, Content: []byte("x")}}, Binaries: []machine.Binary{{Path: "/b", Digest: theBlob}}}
	blob := bytes.Repeat([]byte("blob"), 1<<18)
	var asked, told []string
	o := ApplyOptions{
		Progress: func(s string) { told = append(told, s) },
		Blob: func(digest string) (io.ReadCloser, int64, error) {
			asked = append(asked, digest)
			return io.NopCloser(bytes.NewReader(blob)), int64(len(blob)), nil
		},
	}
	report, err := a.d.Apply(t.Context(), a.h, always(cfg), ApplyOptions{})
	if err != nil || !slices.Equal(report.Missing, []string{theBlob}) {
		t.Fatalf("without blobs: %+v: %v", report, err)
	}
	report, err = a.d.Apply(t.Context(), a.h, always(cfg), o)
	testkit.Must(t, err)
	if report.Digest != "sha256:d" || len(report.Changes) != 1 || len(report.Missing) != 0 || !slices.Equal(asked, []string{theBlob}) {
		t.Errorf("report %+v, asked for %v", report, asked)
	}
	got, err := os.ReadFile(filepath.Join(a.dir, "blob"))
	if err != nil || !bytes.Equal(got, blob) {
		t.Errorf("%d of %d bytes arrived: %v", len(got), len(blob), err)
	}
	if put, _ := os.ReadFile(filepath.Join(a.dir, "put")); string(put) != theBlob+" --size 1048576\n" {
		t.Errorf("put with %q", put)
	}
	if sent, _ := os.ReadFile(filepath.Join(a.dir, "cfg")); !strings.Contains(string(sent), `"content":"eA=="`) {
		t.Errorf("sent %s", sent)
	}
	if !slices.Contains(told, "uploading blob 1 of 1") {
		t.Errorf("told %q", told)
	}
	before := a.Execs.Load()
	_, err = a.d.Apply(t.Context(), a.h, always(cfg), o)
	testkit.Must(t, err)
	if n := a.Execs.Load() - before; n != 1 {
		t.Errorf("%d commands although nothing is missing", n)
	}
}

func TestDryRunUploadsNoBlob(t *testing.T) {
	a := newAgentHost(t)
	report, err := a.d.Apply(t.Context(), a.h, always(machine.Config{}), ApplyOptions{DryRun: true, Blob: func(string) (io.ReadCloser, int64, error) {
		t.Error("a blob was asked for")
		return nil, 0, fs.ErrNotExist
	}})
	if err != nil || len(report.Changes) != 1 {
		t.Errorf("report %+v: %v", report, err)
	}
}

func TestAgentErrorsKeepTheirKind(t *testing.T) {
	a := newAgentHost(t)
	_, err := a.d.Facts(t.Context(), a.h)
	testkit.Must(t, err)
	testkit.Must(t, os.WriteFile(filepath.Join(a.dir, "fail"), nil, 0o600))
	_, err = a.d.Apply(t.Context(), a.h, always(machine.Config{}), ApplyOptions{})
	if fail.KindOf(err) != fail.Conflict {
		t.Errorf("kind %v", fail.KindOf(err))
	}
	has(t, err, "m (", "/lock", "take the lock: busy", "(wait)")
	_, err = a.d.Agent(t.Context(), a.h, nil, "nonsense")
	has(t, err, "unknown nonsense", "status 3")
	testkit.Must(t, os.Remove(filepath.Join(a.dir, "fail")))
	_, err = a.d.Apply(t.Context(), a.h, always(machine.Config{Binaries: []machine.Binary{{Digest: theBlob}}}), ApplyOptions{Blob: func(string) (io.ReadCloser, int64, error) {
		return nil, 0, errors.New("no such blob")
	}})
	has(t, err, "open blob sha256:b", "no such blob")
}

func TestNoAgentOnThisSide(t *testing.T) {
	key := newKey(t)
	s := newServer(t, key.PublicKey())
	for _, p := range []string{"", filepath.Join(t.TempDir(), "none")} {
		if _, err := dialer(t, Options{AgentPath: p}, key).Facts(t.Context(), s.host("m")); err == nil {
			t.Error("no error")
		}
	}
	if s.Logins.Load() != 0 {
		t.Error("connected all the same")
	}
}

func TestUploadThatCantBeWritten(t *testing.T) {
	a := newAgentHost(t)
	testkit.Must(t, os.WriteFile(a.dir, []byte("a file where the directory should be"), 0o600))
	_, err := a.d.Facts(t.Context(), a.h)
	if fail.KindOf(err) != fail.Refused {
		t.Errorf("kind %v", fail.KindOf(err))
	}
	has(t, err, "put the agent on the machine", "mkdir")
}

func TestKeys(t *testing.T) {
	private, public, err := GenerateKey("naupegos demo")
	testkit.Must(t, err)
	signer, err := ParseKey(private)
	testkit.Must(t, err)
	if public != PublicKey(signer)+" naupegos demo" || !strings.HasPrefix(string(private), "-----BEGIN OPENSSH PRIVATE KEY-----\n") {
		t.Errorf("public %q", public)
	}
	if _, _, _, _, err := ssh.ParseAuthorizedKey([]byte(public)); err != nil {
		t.Error(err)
	}
	_, err = ParseKey([]byte("-----BEGIN OPENSSH PRIVATE KEY-----\nc2VjcmV0\n-----END OPENSSH PRIVATE KEY-----\n"))
	if fail.KindOf(err) != fail.Invalid || strings.Contains(err.Error(), "c2VjcmV0") {
		t.Errorf("error %v", err)
	}
}

// TestAgentThatNeverEnds: an impostor of the agent can't fill this machine's memory.
func TestAgentThatNeverEnds(t *testing.T) {
	a := newAgentHost(t)
	a.d.most = 4 << 20
	out, err := a.d.Agent(t.Context(), a.h, nil, "endless")
	if fail.KindOf(err) != fail.Refused || !strings.Contains(err.Error(), "says more than") || len(out) > 0 {
		t.Errorf("%d bytes, %v", len(out), err)
	}
}

// TestPause stops a program on two machines, one of which does not know the verb. On the other the program stays stopped until resume.
func TestPause(t *testing.T) {
	a, other := newAgentHost(t), newAgentHost(t)
	_, err := a.d.Facts(t.Context(), a.h)
	testkit.Must(t, err)
	paused := filepath.Join(a.dir, "paused")
	resume := a.d.Pause(t.Context(), []Host{a.h, other.h}, "server")
	if _, err := os.Stat(paused); err != nil {
		t.Errorf("the program is not stopped: %v", err)
	}
	resume()
	if _, err := os.Stat(paused); err == nil {
		t.Error("the program does not go on")
	}
	a.d.Pause(t.Context(), nil, "server")()
}

// TestMachinesGetTheirBlobsAlone: root on a machine, which can impersonate the agent, gets no file of this host, and no blob twice.
func TestMachinesGetTheirBlobsAlone(t *testing.T) {
	a := newAgentHost(t)
	cfg := machine.Config{Machine: "m", Binaries: []machine.Binary{{Path: "/b", Digest: theBlob}}, Files: []machine.File{{Path: "/x", Content: []byte("sha256:" + strings.Repeat("c", 64))}}}
	testkit.Value(a.d.Facts(t.Context(), a.h))(t) // the agent is installed
	for name, c := range map[string]struct {
		wants   []string
		refused bool
	}{
		"a path":                       {[]string{"sha256:../../../../../../../../etc/passwd"}, true},
		"an absolute path":             {[]string{"/etc/passwd"}, true},
		"a path after a blob":          {[]string{theBlob, theBlob + "/../../x"}, true},
		"another cluster's blob":       {[]string{"sha256:" + strings.Repeat("d", 64)}, true},
		"a digest in a file's content": {[]string{"sha256:" + strings.Repeat("c", 64)}, true},
		"an escape sequence":           {[]string{"sha256:\x1b[31m"}, true},
		"its own, a thousand times":    {slices.Repeat([]string{theBlob}, 1000), false},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.Must(t, os.WriteFile(filepath.Join(a.dir, "wants"), testkit.Value(json.Marshal(machine.Report{Missing: c.wants}))(t), 0o600))
			var opened []string
			_, err := a.d.Apply(t.Context(), a.h, always(cfg), ApplyOptions{Blob: func(digest string) (io.ReadCloser, int64, error) {
				opened = append(opened, digest)
				return io.NopCloser(strings.NewReader("")), 0, nil
			}})
			if c.refused {
				testkit.Fails(t, err, fail.Refused, "does not name")
				if len(opened) > 0 || strings.Contains(err.Error(), "\x1b") {
					t.Errorf("it opened %q: %v", opened, err)
				}
				return
			}
			testkit.Fails(t, err, fail.Internal, "after they were sent") // three times at most
			if len(opened) > 3 {
				t.Errorf("%d were sent", len(opened))
			}
		})
	}
}
