//go:build e2e

package e2e_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naupegos/naupegos/internal/store"
)

// needle is a piece of a secret that identifies it in any text.
type needle struct {
	name string // of the secret
	text []byte
}

// secretsNowhere searches for the cluster's real secrets, and for one planted through the API, wherever they must not be: user data, consoles, logs,
// journals, process arguments, output, the store's file, etcd's data, the support archive. args returns the observed arguments of processes; applied
// is the result of the cluster's first apply.
func (r *rig) secretsNowhere(args func() []byte, applied result) {
	t := r.t
	t.Helper()
	planted := "planted-7b1f4c0a96e24d3f"
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "planted"}, StringData: map[string]string{"key": planted}}
	if _, err := r.api().CoreV1().Secrets("default").Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	again := r.must(0, "apply", "-f", r.file, "--yes")
	needles := append(r.needles(), needle{"planted", []byte(planted)})
	t.Logf("%d needles", len(needles))
	s := newSearch(needles)
	clean := func(where string, text []byte) {
		t.Helper()
		for _, name := range s.in(text) {
			t.Errorf("%s holds a part of the secret %s", where, name)
		}
	}
	seen := args()
	if !bytes.Contains(seen, []byte("kube-apiserver")) || !bytes.Contains(seen, []byte("kubelet")) {
		t.Error("the arguments of processes were not seen at all")
	}
	clean("a process's arguments", seen)
	for _, res := range []result{applied, again, r.run("plan", "-f", r.file, "-o", "json"), r.must(0, "history", r.name, "last", "-o", "json"),
		r.must(0, "status", r.name, "-o", "json"), r.must(0, "certs", "list", r.name)} {
		clean("the output of naupegos "+strings.Join(res.args, " "), []byte(res.stdout+res.stderr))
	}
	for _, m := range r.status().Machines {
		clean("the journal of "+m.Name, []byte(r.ssh(m.Name, "journalctl --no-pager -o export")))
	}
	r.searchStore(clean)
	r.searchMachines(s)
	r.searchArchive(clean)
	r.site.search(r, clean)
}

// search finds all needles in one pass, because there are gigabytes of text.
type search struct {
	by [1 << 16][]needle // by their first two bytes
}

func newSearch(needles []needle) *search {
	s := &search{}
	for _, n := range needles {
		first := int(n.text[0])<<8 | int(n.text[1])
		s.by[first] = append(s.by[first], n)
	}
	return s
}

// in returns the names of the secrets with a needle in text, each once.
func (s *search) in(text []byte) []string {
	var names []string
	for i := 0; i+1 < len(text); i++ {
		for _, n := range s.by[int(text[i])<<8|int(text[i+1])] {
			if bytes.HasPrefix(text[i:], n.text) && !slices.Contains(names, n.name) {
				names = append(names, n.name)
			}
		}
	}
	return names
}

// needles returns pieces of all secrets of the cluster in the store.
func (r *rig) needles() []needle {
	r.t.Helper()
	id := r.clusterID()
	st, err := store.Open(r.t.Context(), store.Location{Dir: r.state})
	if err != nil {
		r.t.Fatal(err)
	}
	defer st.Close()
	names, err := st.Secrets(id).Names(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	var out []needle
	for _, name := range names {
		value, err := st.Secrets(id).Get(r.t.Context(), name)
		if err != nil {
			r.t.Fatal(err)
		}
		out = append(out, pieces(r.t, name, bare(value))...)
	}
	if len(out) < 10 {
		r.t.Fatalf("only %d pieces of %d secrets (%v): the test would prove nothing", len(out), len(names), names)
	}
	return out
}

// bare returns the secret part of a value: the field "secret" of a JSON object, or else the whole value.
func bare(value []byte) []byte {
	var o struct{ Secret string }
	if json.Unmarshal(value, &o) == nil && o.Secret != "" {
		return []byte(o.Secret)
	}
	return value
}

// pieces returns recognisable pieces of a secret. Of PEM these are only the private numbers, because public keys may be visible: raw, as in the PEM,
// and in base64 of that. Of other values they are the value itself, in hexadecimal and in base64.
func pieces(t testing.TB, name string, value []byte) []needle {
	t.Helper()
	var out []needle
	isPEM := false
	for rest := value; ; {
		var b *pem.Block
		if b, rest = pem.Decode(rest); b == nil {
			break
		}
		isPEM = true
		if !strings.Contains(b.Type, "PRIVATE KEY") {
			continue
		}
		private := privateNumber(t, name, b)
		at := bytes.Index(b.Bytes, private)
		if at < 0 {
			t.Fatalf("%s: its private number is not in its encoding", name)
		}
		text := pem.EncodeToMemory(b)
		// Where the number is in the text: every three bytes are four characters, in lines of 64.
		body := bytes.IndexByte(text, '\n') + 1
		from, to := (at+2)/3*4, (at+len(private))/3*4
		var line []byte // the longest piece of it within one line
		start := 0
		for c := from; c < to; {
			end := min(to, (c/64+1)*64)
			if p := text[body+c+c/64 : body+c/64+end]; len(p) > len(line) {
				line, start = p, body+c+c/64
			}
			c = end
		}
		encoded := base64.StdEncoding.EncodeToString(text)
		again := encoded[(start+2)/3*4 : (start+len(line))/3*4]
		if len(line) < 16 || len(again) < 16 {
			t.Fatalf("%s: too little of its private number is in one line: %d characters", name, len(line))
		}
		out = append(out, needle{name, line}, needle{name + " (base64)", []byte(again)}, needle{name + " (raw)", private})
	}
	value = bytes.TrimSpace(value)
	if isPEM || len(value) < 12 {
		return out
	}
	return append(out, needle{name, value}, needle{name + " (hex)", []byte(hex.EncodeToString(value))},
		needle{name + " (base64)", []byte(base64.StdEncoding.EncodeToString(value))})
}

// privateNumber returns the secret part of a private key.
func privateNumber(t testing.TB, name string, b *pem.Block) []byte {
	t.Helper()
	key, err := ssh.ParseRawPrivateKey(pem.EncodeToMemory(b))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	switch k := key.(type) {
	case *ecdsa.PrivateKey:
		d, err := k.Bytes()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return d
	case *rsa.PrivateKey:
		return k.Primes[0].Bytes()
	case *ed25519.PrivateKey:
		return k.Seed()
	case ed25519.PrivateKey:
		return k.Seed()
	}
	t.Fatalf("%s: unknown kind of key %T", name, key)
	return nil
}

// searchStore searches the store's files, except for the identity that decrypts its secrets, which only its owner may read.
func (r *rig) searchStore(clean func(string, []byte)) {
	r.t.Helper()
	err := filepath.WalkDir(r.state, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o077 != 0 {
			r.t.Errorf("%s is not its owner's alone: %v", path, info.Mode())
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		clean(path, text)
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// homes are the directories for a machine's secrets; every file with a secret in them must be closed to other users.
var homes = []string{"/upper/etc/kubernetes/", "/upper/etc/etcd/", "/upper/var/lib/kubelet/", "/volumes/kubelet/", "/upper/root/.ssh/", "/upper/root/.kube/", "/upper/etc/ssh/"}

// programOf identifies large files of unpacked images, which all machines share and which make up most of the data; "" for other files.
func programOf(path string, size int64) string {
	_, in, ok := strings.Cut(path, "/io.containerd.snapshotter.v1.overlayfs/snapshots/")
	if !ok || size < 1<<20 {
		return ""
	}
	_, name, _ := strings.Cut(in, "/")
	return fmt.Sprint(name, " ", size)
}

// searchMachines searches every file of every machine, and images' programs once: user data, consoles, logs, journals, etcd's data.
func (r *rig) searchMachines(s *search) {
	r.t.Helper()
	root := filepath.Join(machineRoot, r.site.host(r))
	files, atHome, programs := 0, 0, map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // logs rotate and pods come and go while we look
		}
		rel := strings.TrimPrefix(path, root)
		if d.IsDir() && strings.Contains(rel, "/mnt") || strings.Contains(rel, "/volumes/containerd/io.containerd.content") {
			return filepath.SkipDir // mnt is a mount point; content holds images
		}
		info, err := d.Info()
		if err != nil || !info.Mode().IsRegular() || info.Size() > 256<<20 {
			return nil //nolint:nilerr // the same
		}
		if p := programOf(rel, info.Size()); programs[p] {
			return nil
		} else if p != "" {
			programs[p] = true
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil //nolint:nilerr // the same
		}
		files++
		for _, name := range s.in(text) {
			home := false
			for _, h := range homes {
				home = home || strings.Contains(rel, h)
			}
			switch {
			case !home:
				r.t.Errorf("%s holds a part of the secret %s", rel, name)
			case info.Mode().Perm()&0o077 != 0:
				r.t.Errorf("%s holds a part of the secret %s and is open to others: %v", rel, name, info.Mode())
			default:
				atHome++
			}
		}
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Logf("%d files on machines searched; %d times a secret was where it belongs", files, atHome)
	if atHome == 0 {
		r.t.Error("no secret was found even where it belongs: the search proves nothing")
	}
	for _, m := range r.status().Machines {
		seed, err := filepath.Glob(filepath.Join(root, "machines", m.Name, "upper/var/lib/cloud/seed/*/user-data"))
		if err != nil || len(seed) == 0 {
			r.t.Errorf("%s has no user-data that could be searched: %v", m.Name, err)
		}
	}
}

// searchArchive searches the support archive.
func (r *rig) searchArchive(clean func(string, []byte)) {
	r.t.Helper()
	dir := filepath.Join(r.dir, "support")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		r.t.Fatal(err)
	}
	archive := filepath.Join(dir, "support.tar.gz")
	res := r.must(0, "support", r.name, "--file", archive)
	clean("the output of naupegos support", []byte(res.stdout+res.stderr))
	out := filepath.Join(dir, "out")
	if err := extract(archive, out); err != nil {
		r.t.Fatal(err)
	}
	files := 0
	err := filepath.WalkDir(out, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		clean("the support archive's "+filepath.Base(path), text)
		if bytes.Contains(text, []byte("PRIVATE KEY")) {
			return fmt.Errorf("%s holds a private key", path)
		}
		return nil
	})
	if err != nil {
		r.t.Error(err)
	}
	if files < 10 {
		r.t.Errorf("the support archive has %d files only", files)
	}
}
