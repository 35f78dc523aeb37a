//go:build integration

package laying

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/naupegos/naupegos/internal/bundle/bundletest"
	"github.com/naupegos/naupegos/internal/testkit"
)

// bench is a place for members of etcd, each in a directory of its own on loopback.
type bench struct {
	t        *testing.T
	dir      string
	programs map[string]string
	client   map[string]string
	peer     map[string]string
	procs    map[string]*exec.Cmd
}

func newBench(t *testing.T, names ...string) *bench {
	b := &bench{t: t, dir: t.TempDir(), programs: map[string]string{}, client: map[string]string{}, peer: map[string]string{}, procs: map[string]*exec.Cmd{}}
	lib := bundletest.Any(t)
	for _, p := range []string{"etcd", "etcdctl", "etcdutl"} {
		b.programs[p] = bundletest.Program(t, lib, p)
	}
	for _, n := range names {
		b.client[n] = fmt.Sprintf("http://127.0.0.1:%d", testkit.FreePort(t))
		b.peer[n] = fmt.Sprintf("http://127.0.0.1:%d", testkit.FreePort(t))
	}
	return b
}

func (b *bench) start(name, initial string) {
	log, err := os.Create(filepath.Join(b.dir, name+".log"))
	testkit.Must(b.t, err)
	cmd := exec.Command(b.programs["etcd"], "--name="+name, "--data-dir="+filepath.Join(b.dir, name), "--listen-client-urls="+b.client[name],
		"--advertise-client-urls="+b.client[name], "--listen-peer-urls="+b.peer[name], "--initial-advertise-peer-urls="+b.peer[name],
		"--initial-cluster="+initial, "--heartbeat-interval=100", "--election-timeout=2000")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	testkit.Must(b.t, cmd.Start())
	b.procs[name] = cmd
	b.t.Cleanup(func() {
		b.kill(name)
		if b.t.Failed() {
			data, _ := os.ReadFile(log.Name())
			b.t.Logf("%s:\n%s", name, data)
		}
	})
}

func (b *bench) kill(name string) {
	if p := b.procs[name]; p != nil && p.ProcessState == nil {
		_ = p.Process.Kill()
		_ = p.Wait()
	}
}

func (b *bench) connect(names ...string) *clientv3.Client {
	var urls []string
	for _, n := range names {
		urls = append(urls, b.client[n])
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: urls, DialTimeout: 30 * time.Second, Logger: zap.NewNop()})
	testkit.Must(b.t, err)
	b.t.Cleanup(func() { c.Close() })
	return c
}

// run runs a script of a place with the tools.
func (b *bench) run(p Place, argv []string) string {
	b.t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		log, _ := os.ReadFile(filepath.Join(p.Tools, "log"))
		b.t.Fatalf("%v: %s\n%s", err, errs.String(), log)
	}
	return out.String()
}

// TestSalvage kills two of three members and deletes their disks during writes. The survivor's data contains everything up to the reported
// revision and nothing beyond it; it serves again with higher revisions, and its former data is kept.
func TestSalvage(t *testing.T) {
	b := newBench(t, "a", "b", "c")
	var initial []string
	for n, u := range b.peer {
		initial = append(initial, n+"="+u)
	}
	for n := range b.peer {
		b.start(n, strings.Join(initial, ","))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	all := b.connect("a", "b", "c")
	agreed := map[int64]string{} // by revision
	writing, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	enough := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; writing.Err() == nil; i++ {
			key := fmt.Sprintf("k%06d", i)
			r, err := all.Put(writing, key, strings.Repeat("x", 512))
			if err != nil {
				continue
			}
			if agreed[r.Header.Revision] = key; len(agreed) == 2000 {
				close(enough)
			}
		}
	}()
	select {
	case <-enough:
	case <-ctx.Done():
		t.Fatal("etcd takes no 2000 writes in 2 minutes")
	}
	for _, n := range []string{"b", "c"} { // in mid-write
		testkit.Must(t, b.procs[n].Process.Kill())
	}
	for _, n := range []string{"b", "c"} {
		b.kill(n)
		testkit.Must(t, os.RemoveAll(filepath.Join(b.dir, n)))
	}
	b.kill("a")
	stop()
	<-done

	p := Place{Tools: filepath.Join(b.dir, "tools"), Data: filepath.Join(b.dir, "a"), Manifests: filepath.Join(b.dir, "manifests"), Run: "r1"}
	b.run(p, p.Prepare())
	for name, file := range b.programs {
		data, err := os.ReadFile(file)
		testkit.Must(t, err)
		testkit.Must(t, os.WriteFile(filepath.Join(p.Tools, name), data, 0o700))
	}
	first := b.run(p, p.Salvage())
	if again := b.run(p, p.Salvage()); again != first {
		t.Errorf("a second time it says %q, not %q", again, first)
	}
	s, err := ReadSalvaged([]byte(first))
	testkit.Must(t, err)
	for range 2 {
		b.run(p, p.Lay("a", "a="+b.peer["a"], b.peer["a"]))
	}
	if said := b.run(p, p.Prepare()); strings.TrimSpace(said) != "yes" {
		t.Errorf("data that was laid is %q", said)
	}
	if _, err := os.Stat(filepath.Join(p.Kept(), "wal")); err != nil {
		t.Errorf("what was there before is not kept: %v", err)
	}
	b.start("a", "a="+b.peer["a"])
	one := b.connect("a")
	members, err := one.MemberList(ctx)
	testkit.Must(t, err)
	if len(members.Members) != 1 {
		t.Errorf("it has %d members", len(members.Members))
	}
	got, err := one.Get(ctx, "k", clientv3.WithPrefix())
	testkit.Must(t, err)
	has := map[string]bool{}
	for _, kv := range got.Kvs {
		has[string(kv.Key)] = true
	}
	missing := 0
	for rev, key := range agreed {
		if has[key] != (rev <= s.Revision) {
			t.Errorf("%s of revision %d is there: %v; all up to %d is said to be", key, rev, has[key], s.Revision)
		}
		if !has[key] {
			missing++
		}
	}
	r, err := one.Put(ctx, "next", "")
	testkit.Must(t, err)
	if r.Header.Revision < s.Next() {
		t.Errorf("it goes on with revision %d, before %d", r.Header.Revision, s.Next())
	}
	t.Logf("of %d writes that were answered %d are missing; the survivor held revision %d, and %d more entries that it did not know to be committed",
		len(agreed), missing, s.Revision, s.Discarded)
	b.run(p, p.Tidy())
	if _, err := os.Stat(p.Tools); !os.IsNotExist(err) {
		t.Errorf("the tools are left: %v", err)
	}
}

// TestClear: a member's data is moved aside once, and a member without data is reported.
func TestClear(t *testing.T) {
	b := newBench(t, "a")
	b.start("a", "a="+b.peer["a"])
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := b.connect("a").Put(ctx, "k", "v")
	testkit.Must(t, err)
	p := Place{Tools: filepath.Join(b.dir, "tools"), Data: filepath.Join(b.dir, "a"), Manifests: filepath.Join(b.dir, "manifests"), Run: "r1"}
	testkit.Must(t, os.MkdirAll(p.Manifests, 0o700))
	manifest := filepath.Join(p.Manifests, "etcd.yaml")
	testkit.Must(t, os.WriteFile(manifest, nil, 0o600))
	go func() { // as kubelet does
		for ctx.Err() == nil {
			if _, err := os.Stat(manifest); err != nil {
				_ = b.procs["a"].Process.Kill()
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	for range 2 {
		b.run(p, p.Clear())
	}
	_ = b.procs["a"].Wait()
	if _, err := os.Stat(filepath.Join(p.Kept(), "wal")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(p.Data, "member")); !os.IsNotExist(err) {
		t.Errorf("the data is still where it was: %v", err)
	}
	b.run(p, p.Prepare())
	argv := p.Salvage()
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "etcd has no data here") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestHalt: a machine's control plane ends before its etcd does, and nothing of it is left to be started again.
func TestHalt(t *testing.T) {
	b := newBench(t, "a")
	b.start("a", "a="+b.peer["a"])
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := b.connect("a").Put(ctx, "k", "v")
	testkit.Must(t, err)
	p := Place{Tools: filepath.Join(b.dir, "tools"), Data: filepath.Join(b.dir, "a"), Manifests: filepath.Join(b.dir, "manifests"), Run: "r1", servers: "my-controller my-server"}
	testkit.Must(t, os.MkdirAll(p.Manifests, 0o700))
	ended := make(chan string, 4)
	for _, program := range []string{"my-controller", "my-server", "etcd"} {
		proc := b.procs["a"]
		if program != "etcd" {
			proc = exec.Command("sleep", "60")
			proc.Args[0] = program
			testkit.Must(t, proc.Start())
		}
		manifest := filepath.Join(p.Manifests, program+".yaml")
		testkit.Must(t, os.WriteFile(manifest, nil, 0o600))
		go func() { // as kubelet does
			for ctx.Err() == nil {
				if _, err := os.Stat(manifest); err != nil {
					ended <- program
					_ = proc.Process.Kill()
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
			_ = proc.Wait()
		}()
	}
	b.run(p, p.Halt())
	for range 2 {
		if program := <-ended; program == "etcd" {
			t.Error("etcd ends before what uses it")
		}
	}
	if program := <-ended; program != "etcd" {
		t.Errorf("the last to end is %s", program)
	}
	left, err := filepath.Glob(filepath.Join(p.Manifests, "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left are %v: %v", left, err)
	}
	b.run(p, p.Halt()) // once more: nothing runs
	if _, err := os.Stat(filepath.Join(p.Data, "member", "wal")); err != nil {
		t.Errorf("its data is not where it was: %v", err)
	}
}
