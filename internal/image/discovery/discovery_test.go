package discovery

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cavaliergopher/cpio"
	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// small returns a kernel whose ext4 needs one of two checksum implementations and jbd2, which needs crc16.
func small() *kernel {
	k := &kernel{release: "6.1.0-1-amd64", image: []byte("kernel"), content: map[string][]byte{}, modules: map[string]module{
		"kernel/fs/ext4/ext4.ko":              {aliases: []string{"ext3", "fs-ext4"}, needs: []string{"jbd2"}, before: []string{"crypto-crc32c"}},
		"kernel/fs/jbd2/jbd2.ko":              {needs: []string{"crc16"}},
		"kernel/lib/crc16.ko":                 {},
		"kernel/crypto/crc32c_generic.ko":     {aliases: []string{"crypto-crc32c"}},
		"kernel/arch/x86/crc32c-intel.ko":     {aliases: []string{"crypto-crc32c", "cpu:type:x86"}},
		"kernel/drivers/net/virtio_net.ko":    {aliases: []string{"virtio:d00000001v*"}, needs: []string{"net_failover"}},
		"kernel/drivers/net/net_failover.ko":  {},
		"kernel/drivers/net/wireless/wifi.ko": {aliases: []string{"pci:v*"}},
	}}
	for file := range k.choose([]string{"fs/ext4/", "drivers/net/virtio_net.ko"}) {
		k.content[file] = []byte("content of " + file)
	}
	return k
}

func TestModulesAndWhatTheyNeed(t *testing.T) {
	k := small()
	if len(k.content) != 7 || k.content["kernel/drivers/net/wireless/wifi.ko"] != nil {
		t.Errorf("these are chosen: %v", k.content)
	}
	deps, aliases := k.lists()
	want := `kernel/arch/x86/crc32c-intel.ko:
kernel/crypto/crc32c_generic.ko:
kernel/drivers/net/net_failover.ko:
kernel/drivers/net/virtio_net.ko: kernel/drivers/net/net_failover.ko
kernel/fs/ext4/ext4.ko: kernel/crypto/crc32c_generic.ko kernel/arch/x86/crc32c-intel.ko kernel/fs/jbd2/jbd2.ko kernel/lib/crc16.ko
kernel/fs/jbd2/jbd2.ko: kernel/lib/crc16.ko
kernel/lib/crc16.ko:
`
	if d := cmp.Diff(want, string(deps)); d != "" {
		t.Error(d)
	}
	if !strings.Contains(string(aliases), "alias virtio:d00000001v* virtio_net\n") || !strings.Contains(string(aliases), "alias fs-ext4 ext4\n") {
		t.Errorf("the aliases are:\n%s", aliases)
	}
}

// TestInitrd reads the initrd back, and checks that the same input gives the same bytes.
func TestInitrd(t *testing.T) {
	dir := t.TempDir()
	agent := filepath.Join(dir, "agent")
	testkit.Must(t, os.WriteFile(agent, []byte("agent"), 0o700))
	programs := map[string][]byte{"/usr/sbin/sfdisk": []byte("partitions")}
	first, second := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	size, sum, err := writeInitrd(first, small(), agent, programs)
	testkit.Must(t, err)
	if _, again, err := writeInitrd(second, small(), agent, programs); err != nil || again != sum {
		t.Errorf("%s, then %s, %v", sum, again, err)
	}
	data := testkit.Value(os.ReadFile(first))(t)
	if int64(len(data)) != size {
		t.Errorf("%d bytes, and it is said %d", len(data), size)
	}
	r := cpio.NewReader(testkit.Value(zstd.NewReader(bytes.NewReader(data)))(t))
	seen, files := map[string]bool{".": true}, map[string]string{}
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		testkit.Must(t, err)
		if !seen[filepath.Dir(h.Name)] {
			t.Errorf("%s comes before its directory", h.Name)
		}
		seen[h.Name] = true
		files[h.Name] = h.Mode.String() + " " + h.Linkname + string(testkit.Value(io.ReadAll(r))(t))
	}
	for name, want := range map[string]string{"init": "0100755 agent", "sbin/modprobe": "/init", "usr/sbin/sfdisk": "0100755 partitions",
		"lib/modules/6.1.0-1-amd64/kernel/fs/ext4/ext4.ko": "content of kernel/fs/ext4/ext4.ko", "lib/modules/6.1.0-1-amd64/modules.dep": "virtio_net"} {
		if !strings.Contains(files[name], want) {
			t.Errorf("%s is %q", name, files[name])
		}
	}
}

func TestPrograms(t *testing.T) {
	files, err := withLibraries(map[string]string{"/bin/ls": "coreutils"})
	if err != nil || len(files) < 3 || files["/bin/ls"] == nil {
		t.Errorf("%d files, %v", len(files), err)
	}
	_, err = withLibraries(map[string]string{"/usr/sbin/no-such-program": "fdisk"})
	testkit.Fails(t, err, fail.Refused, "apt-get install fdisk")
}

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	_, err := Open(dir)
	testkit.Fails(t, err, fail.NotFound, "naupegos image discovery")
	for name, content := range map[string]string{infoFile: `{"id": "x", "kernelSize": 6, "initrdSize": 3}`, KernelFile: "kernel", InitrdFile: "abc"} {
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644))
	}
	to := filepath.Join(t.TempDir(), "new")
	testkit.Must(t, testkit.Value(Open(dir))(t).CopyTo(to))
	testkit.Must(t, testkit.Value(Open(to))(t).CopyTo(to+"2"))
	testkit.Must(t, os.WriteFile(filepath.Join(dir, InitrdFile), []byte("ab"), 0o644))
	_, err = Open(dir)
	testkit.Fails(t, err, fail.Invalid, "damaged")
}
