package content

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
)

// tinyELF returns an ELF file that only names its loader and the libraries that it needs.
func tinyELF(t *testing.T, loader string, needed ...string) []byte {
	t.Helper()
	const head, ph, sh, dyn = 64, 56, 64, 16
	strtab, dynamic := []byte{0}, []elf.Dyn64{}
	for _, n := range needed {
		dynamic = append(dynamic, elf.Dyn64{Tag: int64(elf.DT_NEEDED), Val: uint64(len(strtab))})
		strtab = append(append(strtab, n...), 0)
	}
	dynamic = append(dynamic, elf.Dyn64{Tag: int64(elf.DT_NULL)})
	interpAt := uint64(head + ph)
	strAt := interpAt + uint64(len(loader)+1)
	dynAt := strAt + uint64(len(strtab))
	shAt := dynAt + uint64(len(dynamic)*dyn)
	h := elf.Header64{Type: uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Version: 1, Phoff: head, Shoff: shAt, Ehsize: head, Phentsize: ph, Phnum: 1, Shentsize: sh, Shnum: 3}
	copy(h.Ident[:], []byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1})
	kind := elf.PT_INTERP
	if loader == "" {
		kind = elf.PT_NULL
	}
	var b bytes.Buffer
	for _, part := range []any{
		h, elf.Prog64{Type: uint32(kind), Off: interpAt, Filesz: uint64(len(loader) + 1)},
		append([]byte(loader), 0), strtab, dynamic,
		elf.Section64{},
		elf.Section64{Type: uint32(elf.SHT_STRTAB), Off: strAt, Size: uint64(len(strtab))},
		elf.Section64{Type: uint32(elf.SHT_DYNAMIC), Off: dynAt, Size: uint64(len(dynamic) * dyn), Link: 1, Entsize: dyn},
	} {
		if err := binary.Write(&b, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// debianTree returns a Tree as Debian lays it out: a program in one package and its libraries in others, one behind a link, one in /lib.
func debianTree(t *testing.T) Tree {
	t.Helper()
	dir := t.TempDir()
	tr := Tree{Roots: []string{dir + "/nftables", dir + "/libc6", dir + "/libx"}}
	const multi = "x86_64-linux-gnu/"
	put(t, tr.Roots[0]+"/usr/sbin/nft", tinyELF(t, "/lib64/ld-linux-x86-64.so.2", "libx.so.1", "libc.so.6"))
	put(t, tr.Roots[1]+"/lib/"+multi+"libc.so.6", tinyELF(t, "", "ld-linux-x86-64.so.2"))
	put(t, tr.Roots[1]+"/lib/"+multi+"ld-linux-x86-64.so.2", tinyELF(t, ""))
	put(t, tr.Roots[2]+"/usr/lib/"+multi+"libx.so.1.2.3", tinyELF(t, "", "libc.so.6", "liby.so.2"))
	put(t, tr.Roots[2]+"/usr/lib/"+multi+"liby.so.2", tinyELF(t, ""))
	put(t, tr.Roots[2]+"/usr/lib/"+multi+"libunused.so.1", tinyELF(t, ""))
	link(t, "/lib/"+multi+"ld-linux-x86-64.so.2", tr.Roots[1]+"/lib64/ld-linux-x86-64.so.2")
	link(t, "libx.so.1.2.3", tr.Roots[2]+"/usr/lib/"+multi+"libx.so.1")
	return tr
}

func link(t *testing.T, to, at string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(to, at); err != nil {
		t.Fatal(err)
	}
}

func TestClosure(t *testing.T) {
	tr := debianTree(t)
	files, err := tr.Closure("/usr/sbin/nft")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	var paths []string
	for _, f := range files {
		paths = append(paths, f.Path)
		got[f.Path] = f.Source
		if info, err := os.Lstat(f.Source); err != nil || !info.Mode().IsRegular() {
			t.Errorf("%s: source %s is not a regular file (%v)", f.Path, f.Source, err)
		}
	}
	want := []string{"/lib64/ld-linux-x86-64.so.2", "/usr/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib/x86_64-linux-gnu/libx.so.1", "/usr/lib/x86_64-linux-gnu/liby.so.2", "/usr/sbin/nft"}
	if !slices.Equal(paths, want) {
		t.Errorf("got %v, want %v", paths, want)
	}
	if got["/usr/lib/x86_64-linux-gnu/libx.so.1"] != tr.Roots[2]+"/usr/lib/x86_64-linux-gnu/libx.so.1.2.3" {
		t.Errorf("the link was not followed: %v", got)
	}
}

func TestClosureNamesWhatIsMissing(t *testing.T) {
	tr := debianTree(t)
	if err := os.Remove(tr.Roots[2] + "/usr/lib/x86_64-linux-gnu/liby.so.2"); err != nil {
		t.Fatal(err)
	}
	_, err := tr.Closure("/usr/sbin/nft")
	wantKind(t, err, fail.NotFound, "liby.so.2", "libx.so.1")
	_, err = tr.Closure("/usr/sbin/other")
	wantKind(t, err, fail.NotFound, "/usr/sbin/other")
	put(t, tr.Roots[0]+"/usr/sbin/script", []byte("#!/bin/sh\n"))
	if _, err = tr.Closure("/usr/sbin/script"); err == nil {
		t.Error("a script passed for an ELF file")
	}
	link(t, "loop", tr.Roots[0]+"/usr/sbin/loop")
	_, err = tr.Closure("/usr/sbin/loop")
	wantKind(t, err, fail.NotFound)
}

func put(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o755); err != nil {
		t.Fatal(err)
	}
}

func wantKind(t *testing.T, err error, kind fail.Kind, says ...string) {
	t.Helper()
	if err == nil || fail.KindOf(err) != kind {
		t.Fatalf("error %v, want one of the kind %s", err, kind)
	}
	for _, s := range says {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("error does not say %q: %v", s, err)
		}
	}
}
