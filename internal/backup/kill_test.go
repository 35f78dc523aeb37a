package backup

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/naupegos/naupegos/internal/testkit"
)

// victim is the environment variable that makes a child process of this test begin an endless backup; its value is the directory.
const victim = "NAUPEGOS_TEST_BACKUP"

// TestKilled checks that a backup killed while being written does not count, and that the next one removes its remains.
func TestKilled(t *testing.T) {
	to, key := recipientOf(t)
	if dir := os.Getenv(victim); dir != "" {
		src := source(t, "demo", noon, to)
		src.Snapshot = func(ctx context.Context, w io.Writer) (Etcd, error) {
			_, err := w.Write(etcdData())
			fmt.Println("begun")
			<-ctx.Done()
			return Etcd{}, err
		}
		_, err := Create(t.Context(), Directory(dir), src)
		t.Fatalf("it ended: %v", err)
	}
	d := Directory(t.TempDir())
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilled$", "-test.v")
	cmd.Env = append(os.Environ(), victim+"="+string(d))
	out := testkit.Value(cmd.StdoutPipe())(t)
	testkit.Must(t, cmd.Start())
	for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != "begun"; {
	}
	testkit.Must(t, cmd.Process.Kill())
	_ = cmd.Wait() // it was killed
	if left := testkit.Value(d.List(t.Context(), "demo"))(t); len(left) != 1 || left[0].Size == 0 {
		t.Errorf("killed too early or too late: %v", left)
	}
	if sets := testkit.Value(List(t.Context(), d, "demo"))(t); len(sets) > 0 {
		t.Errorf("listed are %d sets", len(sets))
	}
	s := testkit.Value(Create(t.Context(), d, source(t, "demo", noon.Add(time.Hour), to)))(t)
	testkit.Value(s.Extract(t.Context(), key, Trust{Unsigned: true}, t.TempDir()))(t)
	if left := testkit.Value(d.List(t.Context(), "demo"))(t); len(left) != 2 {
		t.Errorf("there are %v", left)
	}
}

// TestByHand opens a set with age and tar alone, as in docs/how-to/back-up.md.
func TestByHand(t *testing.T) {
	to, key := recipientOf(t)
	d := Directory(t.TempDir())
	s := testkit.Value(Create(t.Context(), d, source(t, "demo", noon, to)))(t)
	dir := t.TempDir()
	with := testkit.Value(parseIdentities(key))(t)
	for _, file := range []string{d.path(s.dir() + "/" + setFile), filepath.Join(dir, operatorName)} {
		f := testkit.Value(os.Open(file))(t)
		cmd := exec.Command("tar", "-xz", "-C", dir)
		cmd.Stdin = testkit.Value(age.Decrypt(f, with...))(t)
		if said, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, said)
		}
		testkit.Must(t, f.Close())
	}
	data := testkit.Value(exec.Command("sh", "-c", "cat "+dir+"/snapshot.db/*").Output())(t)
	secret := testkit.Value(os.ReadFile(filepath.Join(dir, "secrets/authority/etcd-ca")))(t)
	if !bytes.Equal(data, etcdData()) || string(secret) != "key" {
		t.Errorf("%d bytes of a snapshot, and the secret %q", len(data), secret)
	}
}

func TestNewest(t *testing.T) {
	ctx := t.Context()
	d := Directory(t.TempDir())
	to, _ := recipientOf(t)
	newest := func() string {
		last, proven, err := Newest(ctx, d, "demo", "demo-0badcafe")
		words := ""
		for _, s := range []*Set{last, proven} {
			if s == nil {
				words += "none "
			} else {
				words += s.CreatedAt.Format("15 ")
			}
		}
		return strings.TrimSpace(words + fmt.Sprint(err))
	}
	if got := newest(); got != "none none <nil>" {
		t.Errorf("at first %s", got)
	}
	sets := map[int]*Set{}
	for i := range 4 {
		sets[i] = testkit.Value(Create(ctx, d, source(t, "demo", noon.Add(time.Duration(i)*time.Hour), to)))(t)
	}
	if got := newest(); got != "15 none <nil>" {
		t.Errorf("of four, none proven: %s", got)
	}
	testkit.Must(t, sets[0].Prove(ctx, nil, "v1", noon))
	testkit.Must(t, sets[1].Prove(ctx, nil, "v1", noon))
	testkit.Must(t, os.WriteFile(d.path(sets[2].dir()+"/"+proofFile), []byte("{}"), 0o600))
	testkit.Must(t, os.WriteFile(d.path(sets[3].dir()+"/"+manifestFile), []byte("{"), 0o600))
	if got := newest(); got != "14 13 <nil>" {
		t.Errorf("one damaged, one with a proof that proves nothing: %s", got)
	}
	if last, proven, err := Newest(ctx, d, "demo", "demo-other"); last != nil || proven != nil || err != nil {
		t.Errorf("of another cluster: %v, %v, %v", last, proven, err)
	}
}
