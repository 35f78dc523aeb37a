package gitread

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/gitread/gittest"
	"github.com/naupegos/naupegos/internal/testkit"
	"github.com/naupegos/naupegos/internal/testkit/sshtest"
)

// rig is a repository, and what reads it.
type rig struct {
	*gittest.Repo
	t      *testing.T
	site   *gittest.Site
	source Source
	access Access
}

func newRig(t *testing.T, init ...string) *rig {
	t.Helper()
	site := gittest.NewSite(t)
	r := &rig{Repo: site.NewRepo("infra", init...), t: t, site: site}
	r.source = Source{URL: r.URL, Branch: "main", Path: "clusters/prod.yaml", CA: site.CA}
	r.access = Access{Addresses: []netip.Addr{netip.MustParseAddr("127.0.0.1")}, Dir: filepath.Join(t.TempDir(), "reads")}
	t.Cleanup(func() { // no read leaves anything behind
		if left, _ := os.ReadDir(r.access.Dir); len(left) > 0 {
			t.Errorf("%d directories are left", len(left))
		}
	})
	return r
}

func (r *rig) read(since string) *Found {
	r.t.Helper()
	testkit.Must(r.t, r.source.Check())
	return testkit.Value(Read(r.t.Context(), &r.source, r.access, since))(r.t)
}

// refused reads, and expects a refusal.
func (r *rig) refused(kind fail.Kind, words ...string) {
	r.t.Helper()
	f := r.read("")
	if f.Content != nil {
		r.t.Errorf("it was read: %.60q", f.Content)
	}
	testkit.Fails(r.t, f.Refused, kind, words...)
}

// fails reads, and expects that the repository can't be read.
func (r *rig) fails(kind fail.Kind, words ...string) {
	r.t.Helper()
	testkit.Must(r.t, r.source.Check())
	_, err := Read(r.t.Context(), &r.source, r.access, "")
	testkit.Fails(r.t, err, kind, words...)
	if err != nil && strings.Contains(err.Error(), "s3cret") {
		r.t.Errorf("the error holds the secret: %v", err)
	}
}

// TestRead: the file at the head of the branch is read with one commit and one file, from repositories of both forms.
func TestRead(t *testing.T) {
	for _, form := range []string{"sha1", "sha256"} {
		r := newRig(t, "--object-format="+form)
		r.Write("large", strings.Repeat("x", 1<<20))
		r.Commit("clusters/prod.yaml", "old: true\n")
		want := r.Commit("clusters/prod.yaml", "kind: Cluster\r\n# ☸\r\n")
		head := testkit.Value(Head(t.Context(), &r.source, r.access))(t)
		f := r.read("")
		if head != want || f.Commit != want || string(f.Content) != "kind: Cluster\r\n# ☸\r\n" || f.Refused != nil || f.Signer != "" {
			t.Errorf("%s: %s, %+v", form, head, f)
		}
		if f.Committer != "Ann <ann@example.org>" || f.Subject != "Change clusters/prod.yaml" {
			t.Errorf("%s: %q, %q", form, f.Committer, f.Subject)
		}
	}
}

// TestNoFilter: a host without partial clones sends all files of the commit; the file is read all the same.
func TestNoFilter(t *testing.T) {
	r := newRig(t)
	r.Run("config", "uploadpack.allowFilter", "false")
	r.Commit("clusters/prod.yaml", "kind: Cluster\n")
	if f := r.read(""); string(f.Content) != "kind: Cluster\n" {
		t.Errorf("%+v", f)
	}
}

// TestTooLarge: neither a repository nor a file beyond the limit is fetched, and the part that was fetched is removed.
func TestTooLarge(t *testing.T) {
	r := newRig(t)
	noise := make([]byte, 8<<20)
	_, _ = rand.Read(noise) // so that git can't compress it
	r.Write("noise", base64.StdEncoding.EncodeToString(noise))
	r.Commit("clusters/prod.yaml", "kind: Cluster\n")
	r.access.MaxFile = 2 << 20
	if f := r.read(""); f.Refused != nil {
		t.Errorf("a file beside it counts: %v", f.Refused)
	}
	r.Run("config", "uploadpack.allowFilter", "false")
	r.fails(fail.Refused, "sends more than 2 MiB")
	r.Run("config", "uploadpack.allowFilter", "true")
	r.access.MaxFile = 0
	r.Commit("clusters/prod.yaml", strings.Repeat("# long\n", MaxContent/7+1))
	r.refused(fail.Refused, "the file has 3072 KiB", "3072 KiB are allowed")
}

// TestFiles: anything but a plain file in UTF-8 is refused by name.
func TestFiles(t *testing.T) {
	r := newRig(t)
	r.Commit("clusters/prod.yaml/x", "x")
	r.refused(fail.Refused, "is a directory", "--path")
	r.Run("rm", "-q", "-r", "clusters")
	r.Commit("other", "x")
	r.refused(fail.NotFound, "has no file clusters/prod.yaml", "the cluster stays")
	r.Commit("clusters", "x")
	r.refused(fail.Refused, "clusters is a file")
	r.Run("rm", "-q", "clusters")
	testkit.Must(t, os.MkdirAll(filepath.Join(r.Work, "clusters"), 0o755))
	for _, to := range []string{"/etc/passwd", "../../../etc/passwd", "../other"} {
		_ = os.Remove(filepath.Join(r.Work, "clusters/prod.yaml"))
		testkit.Must(t, os.Symlink(to, filepath.Join(r.Work, "clusters/prod.yaml")))
		r.Run("add", "-A")
		r.Commit("other", to)
		r.refused(fail.Refused, "clusters/prod.yaml is a symbolic link")
	}
	r.Run("rm", "-q", "-r", "clusters")
	testkit.Must(t, os.Symlink("/etc", filepath.Join(r.Work, "clusters")))
	r.Run("add", "-A")
	r.Commit("other", "y")
	r.refused(fail.Refused, "clusters is a symbolic link")
	r.Run("rm", "-q", "clusters")
	r.Run("update-index", "--add", "--cacheinfo", "160000,"+r.Run("rev-parse", "HEAD")+",clusters")
	r.Commit("other", "z")
	r.refused(fail.Refused, "clusters is a submodule")
	r.Run("rm", "-q", "--cached", "clusters")
	for what, text := range map[string]string{
		"pointer of Git LFS": "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n", "UTF-16": "\xff\xfek\x00i\x00", "not in UTF-8": "name: M\xfcnchen\n",
	} {
		r.Commit("clusters/prod.yaml", text)
		r.refused(fail.Refused, what)
	}
}

// TestBranches: the error about a missing branch names the default branch.
func TestBranches(t *testing.T) {
	r := newRig(t)
	r.fails(fail.NotFound, "no branch main")
	r.Commit("clusters/prod.yaml", "kind: Cluster\n")
	r.Run("tag", "-a", "-m", "x", "v1")
	r.source.Branch = "v1"
	r.fails(fail.NotFound, "no branch v1", "is a tag")
	r.source.Branch = "master"
	r.fails(fail.NotFound, "no branch master", "default branch is main")
	r.Run("branch", "team/a")
	r.source.Branch = "team/a"
	if f := r.read(""); f.Content == nil {
		t.Errorf("%+v", f)
	}
}

// TestHosts: each way in which a host may fail has its kind and its remedy. No error holds the secret.
func TestHosts(t *testing.T) {
	r := newRig(t)
	r.Commit("clusters/prod.yaml", "kind: Cluster\n")
	good := r.source
	r.site.User = "ann:s3cret"
	r.fails(fail.Unauthorized, "does not accept the credential")
	r.access.Secret = []byte("ann:s3cret2")
	r.fails(fail.Unauthorized, "does not accept the credential", "credential add")
	r.access.Secret = []byte(" ann:s3cret\r\n")
	if f := r.read(""); f.Content == nil {
		t.Errorf("%+v", f)
	}
	r.source.CA = ""
	r.fails(fail.Unauthorized, "certificate is not trusted", "--ca")
	r.source = good
	for code, want := range map[int]struct {
		kind fail.Kind
		what string
	}{301: {fail.Refused, "redirect"}, 302: {fail.Refused, "redirect"}, 403: {fail.Unauthorized, "credential"}, 404: {fail.NotFound, "no such repository"}, 429: {fail.NotReady, "too many"},
		500: {fail.Unreachable, ""}, 503: {fail.Unreachable, ""}} {
		r.site.Before = func(w http.ResponseWriter, req *http.Request) bool {
			if code < 400 {
				http.Redirect(w, req, "https://169.254.169.254/", code)
			} else {
				http.Error(w, "no\x1b[31m", code)
			}
			return true
		}
		r.fails(want.kind, want.what)
	}
	r.site.Before = nil
	r.site.Close()
	r.fails(fail.Unreachable, "can't be reached")
	r.source.URL = "https://localhost:1/x.git"
	r.fails(fail.Unreachable, "can't be reached")
}

// TestAddresses: git connects to no other address than to the resolved and checked ones.
func TestAddresses(t *testing.T) {
	r := newRig(t)
	r.Commit("clusters/prod.yaml", "kind: Cluster\n")
	r.source.URL = strings.Replace(r.source.URL, "127.0.0.1", "example.com", 1) // its certificate has the name, too
	if f := r.read(""); f.Content == nil {
		t.Errorf("%+v", f)
	}
	r.access.Addresses = []netip.Addr{netip.MustParseAddr("127.0.0.2")}
	r.fails(fail.Unreachable)
}

// TestStops: a read from a host that sends nothing ends with the context, and leaves no process.
func TestStops(t *testing.T) {
	r := newRig(t)
	asked, gone := make(chan struct{}, 1), make(chan struct{})
	t.Cleanup(func() { close(gone) })
	r.site.Before = func(_ http.ResponseWriter, req *http.Request) bool {
		select {
		case asked <- struct{}{}:
		default:
		}
		select {
		case <-req.Context().Done():
		case <-gone:
		}
		return true
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { _, err := Read(ctx, &r.source, r.access, ""); done <- err }()
	<-asked
	cancel()
	select {
	case err := <-done:
		testkit.Fails(t, err, fail.Interrupted)
	case <-time.After(time.Minute):
		t.Fatal("it still reads")
	}
}

// TestDescent: a read tells whether a commit descends from another, also after a force push.
func TestDescent(t *testing.T) {
	r := newRig(t)
	first := r.Commit("clusters/prod.yaml", "a: 1\n")
	second := r.Commit("clusters/prod.yaml", "a: 2\n")
	third := r.Commit("clusters/prod.yaml", "a: 3\n")
	for since, want := range map[string]bool{"": true, first: true, second: true, third: true, strings.Repeat("0", 39) + "1": false} {
		if f := r.read(since); f.Descends != want {
			t.Errorf("after %s: %+v", since, f)
		}
	}
	r.Run("reset", "-q", "--hard", first)
	if f := r.read(third); f.Descends || f.Commit != first || f.Unknown == "" && f.Content == nil {
		t.Errorf("back: %+v", f)
	}
	r.Commit("clusters/prod.yaml", "a: 4\n")
	if f := r.read(third); f.Descends {
		t.Errorf("beside: %+v", f)
	}
}

// TestSSH: a repository is read by SSH with keys of several types of the host and the user; another host key is refused, and so is a key that the host does
// not know.
func TestSSH(t *testing.T) {
	r := newRig(t)
	r.Commit("clusters/prod.yaml", "kind: Cluster\n")
	for _, kind := range []string{"ed25519", "rsa", "ecdsa"} {
		file, public := r.SSHKey("-t", kind)
		s := sshtest.NewServer(t, parsed(t, public))
		port := strconv.Itoa(s.Port())
		host := "[127.0.0.1]:" + port + " " + sshtest.AuthorizedKey(s.HostKey.PublicKey())
		r.source = Source{URL: "ssh://git@127.0.0.1:" + port + r.Git, Branch: "main", Path: "clusters/prod.yaml", KnownHosts: host}
		r.access.Secret = []byte(strings.ReplaceAll(strings.TrimSpace(string(testkit.Value(os.ReadFile(file))(t))), "\n", "\r\n"))
		if f := r.read(""); string(f.Content) != "kind: Cluster\n" {
			t.Errorf("%s: %+v", kind, f)
		}
		one := r.access.Addresses
		r.access.Addresses = []netip.Addr{netip.MustParseAddr("127.0.0.2"), one[0]} // nothing listens at the first
		if f := r.read(""); string(f.Content) != "kind: Cluster\n" {
			t.Errorf("%s: %+v", kind, f)
		}
		r.access.Addresses = one
		r.source.KnownHosts = strings.Replace(host, "127.0.0.1", "127.0.0.9", 1)
		r.fails(fail.Unauthorized, "key is not in --known-hosts")
		r.source.KnownHosts = "[127.0.0.1]:" + port + " " + sshtest.AuthorizedKey(sshtest.NewKey(t).PublicKey())
		r.fails(fail.Unauthorized, "key is not in --known-hosts")
		r.source.KnownHosts = host
		other, _ := r.SSHKey()
		r.access.Secret = testkit.Value(os.ReadFile(other))(t)
		r.fails(fail.Unauthorized, "does not accept the credential")
		r.access.Secret = nil
		r.fails(fail.Unauthorized, "does not accept the credential")
		r.access.Secret = []byte("-----BEGIN OPENSSH PRIVATE KEY-----\ns3cret\n-----END OPENSSH PRIVATE KEY-----")
		r.fails(fail.Unauthorized)
		r.access.Secret = testkit.Value(os.ReadFile(file))(t)
		r.source.URL = "ssh://git@127.0.0.1:" + port + "/nowhere.git"
		r.fails(fail.NotFound, "no such repository")
	}
}

// TestSources: a source that can't be read safely is refused before any read, and no error repeats a password.
func TestSources(t *testing.T) {
	good := Source{URL: "https://git.example.org/infra.git/", Branch: "main", Path: "a.yaml"}
	testkit.Must(t, good.Check())
	for url, word := range map[string]string{
		"": "path of the server", "/srv/infra.git": "path of the server", "file:///srv/infra.git": "path of the server", "../infra": "path of the server",
		"git@git.example.org:infra.git": "ssh://git@git.example.org/infra.git", "http://git.example.org/x": `scheme "http"`, "git://git.example.org/x": `scheme "git"`,
		"ext::sh -c id": "no URL", "ext::id": "", "https://ann:s3cret@git.example.org/x": "credential add", "https://ann@git.example.org/x": "credential add",
		"ssh://git:s3cret@git.example.org/x": "credential add", "ssh://-oProxyCommand=id/x": "host", "ssh://-x@git.example.org/x": "user", "https://git.example.org": "no path",
		"https://git.example.org/x?a=b": "more than a path", "https://git.example.org:0/x": "port", "https://git.example.org/x\ny": "no URL", "https://ex ample.org/x": "no URL",
	} {
		s := good
		s.URL = url
		err := s.Check()
		if err == nil || !strings.Contains(err.Error(), word) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %v", url, err)
		}
	}
	for _, branch := range []string{"", "refs/heads/main", "-x", "a b", "a..b", "a~1", "a:b", "x.lock", "/a", "a/", "@{1}", "a/.b", "a*"} {
		s := good
		s.Branch = branch
		testkit.Fails(t, s.Check(), fail.Invalid, "not the name of a branch")
	}
	for _, path := range []string{"", ".", "..", "/etc/passwd", "../x", "a/../b", "a//b", "a/", "a\nb"} {
		s := good
		s.Path = path
		testkit.Fails(t, s.Check(), fail.Invalid, "not the path of a file")
	}
	ssh := Source{URL: "ssh://git.example.org/x", Branch: "main", Path: "a"}
	testkit.Fails(t, ssh.Check(), fail.Invalid, "--known-hosts")
	ssh.KnownHosts = "git.example.org ssh-ed25519 AAAA"
	testkit.Must(t, ssh.Check())
	ssh.CA = "x"
	testkit.Fails(t, ssh.Check(), fail.Invalid, "--ca")
	good.CA = "x"
	testkit.Fails(t, good.Check(), fail.Invalid, "no certificate")
	for url, want := range map[string]string{"https://Git.Example.org/x": "https://git.example.org:443", "ssh://git@git.example.org/x": "ssh://git.example.org:22", "ssh://git.example.org:2222/x": "ssh://git.example.org:2222", "https://[2001:db8::1]:8443/x": "https://[2001:db8::1]:8443"} {
		s := Source{URL: url}
		if at := testkit.Value(s.Address())(t); at.String() != want {
			t.Errorf("%s is at %s", url, at)
		}
	}
}
