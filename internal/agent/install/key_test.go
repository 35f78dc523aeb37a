package install

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry/facts"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestKeyOutlastsPower: a machine whose installation is interrupted before its key has a file system finds the key again. Once the file system has
// the key, no other copy remains. Damaged data is not a key and never quoted.
func TestKeyOutlastsPower(t *testing.T) {
	dir := t.TempDir()
	disk, sys := facts.Disk{Path: filepath.Join(dir, "dev", "sda")}, filepath.Join(dir, "sys")
	slot := disk.Path + "2"
	for path, text := range map[string]string{
		filepath.Join(sys, "block/sda/sda1/uevent"): "PARTNAME=naupegos-a\n",
		filepath.Join(sys, "block/sda/sda2/uevent"): "DEVTYPE=partition\nPARTNAME=naupegos-b\n",
		slot: strings.Repeat("x", 2*keyRoom),
	} {
		testkit.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		testkit.Must(t, os.WriteFile(path, []byte(text), 0o644))
	}
	none := func(words ...string) {
		t.Helper()
		_, err := SavedKey(sys, []facts.Disk{disk}, filepath.Join(dir, "mnt"))
		testkit.Fails(t, err, fail.NotFound, words...)
		if strings.Contains(err.Error(), "PRIVATE") {
			t.Error("the error has the key")
		}
	}
	none("does not begin with a key")
	key := testkit.Value(facts.NewKey())(t)
	testkit.Must(t, putKey(slot, key))
	if got := testkit.Value(SavedKey(sys, []facts.Disk{{Path: filepath.Join(dir, "dev", "sdb")}, disk}, filepath.Join(dir, "mnt")))(t); !got.Equal(key) {
		t.Error("it is another key")
	}
	f := testkit.Value(os.OpenFile(slot, os.O_WRONLY, 0))(t)
	_ = testkit.Value(f.WriteAt([]byte("!!!!"), 120))(t)
	testkit.Must(t, f.Close())
	none("does not begin with a key")
	testkit.Must(t, dropKey(slot))
	none("does not begin with a key")
	if data := testkit.Value(os.ReadFile(slot))(t); !bytes.Equal(data[:keyRoom], make([]byte, keyRoom)) || data[keyRoom] != 'x' {
		t.Error("something of the key is left, or more was written")
	}
	testkit.Must(t, os.Remove(slot))
	none("no such file")
}
