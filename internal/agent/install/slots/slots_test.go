package slots

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

func TestEnv(t *testing.T) {
	e := Env{Good: A, Try: B, A: "1", B: "2"}
	path := filepath.Join(t.TempDir(), "grubenv")
	testkit.Must(t, os.WriteFile(path, Env{}.Bytes(), 0o600)) // as in the image
	_, err := ReadEnv(path)
	testkit.Fails(t, err, fail.Invalid)
	testkit.Must(t, WriteEnv(path, e))
	if got := testkit.Value(ReadEnv(path))(t); got != e || got.ID(B) != "2" || got.ID(A) != "1" {
		t.Errorf("%+v", got)
	}
	data := testkit.Value(os.ReadFile(path))(t)
	if len(data) != 1024 || !bytes.Contains(data[:512], []byte("try=b\n")) {
		t.Errorf("%d bytes: %s", len(data), data)
	}
	testkit.Fails(t, WriteEnv(path, Env{Good: "c"}), fail.Invalid)
	testkit.Fails(t, WriteEnv(path+"x", e), fail.Refused)
	// as GRUB leaves it
	by := append([]byte("# GRUB Environment Block\na=1\ngood=a\ntry=\nb=2\n"), bytes.Repeat([]byte("#"), 1024-45)...)
	if got, err := ParseEnv(by[:1024]); err != nil || got != (Env{Good: A, A: "1", B: "2"}) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestTable(t *testing.T) {
	const slot = int64(2) << 30
	id := func() string { return "x" }
	for _, disk := range []int64{Needs(slot), Needs(slot) + 12345*Sector} {
		var end int64
		for _, p := range Table(disk, slot, id)[:3] {
			if p.Start%MiB != 0 || p.Size%MiB != 0 || end != 0 && p.Start != end {
				t.Errorf("%+v", p)
			}
			end = p.Start + p.Size
		}
		if state := Table(disk, slot, id)[2]; state.Size < MinState || end > disk-endSize {
			t.Errorf("%d MiB of state, to %d of %d", state.Size>>20, end, disk)
		}
	}
	for disk, want := range map[string]string{"/dev/sda": "/dev/sda3", "/dev/nvme0n1": "/dev/nvme0n1p3", "/dev/loop7": "/dev/loop7p3"} {
		if got := Device(disk, NumberState); got != want {
			t.Error(got)
		}
	}
}

func FuzzParseEnv(f *testing.F) {
	f.Add(Env{Good: A, Try: B, A: "1", B: "2"}.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		if e, err := ParseEnv(data); err == nil && (e.Good != A && e.Good != B) {
			t.Fatalf("%+v", e)
		}
	})
}
