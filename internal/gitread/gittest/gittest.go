// Package gittest makes real repositories for tests, signs their commits with real keys, and serves them over HTTPS by git http-backend.
//
// It is for tests only and depends on none of the packages that it serves.
package gittest

import (
	"encoding/pem"
	"net/http"
	"net/http/cgi" //nolint:gosec // httpoxy, the reason for this finding, is fixed in every supported Go
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/naupegos/naupegos/internal/testkit"
)

// Site serves the repositories of a directory.
type Site struct {
	*httptest.Server
	CA       string       // certificate of the server (PEM)
	User     string       // USER:PASSWORD that requests need; empty: none
	Requests atomic.Int64 // number of requests
	// Before, if set, answers a request instead of git if it returns true.
	Before func(w http.ResponseWriter, r *http.Request) bool

	t    testing.TB
	root string
}

// NewSite serves repositories until the test ends.
func NewSite(t testing.TB) *Site {
	t.Helper()
	s := &Site{t: t, root: t.TempDir()}
	backend := filepath.Join(strings.TrimSpace(output(t, "", nil, "git", "--exec-path")), "git-http-backend")
	git := &cgi.Handler{Path: backend, Env: []string{"GIT_PROJECT_ROOT=" + s.root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null"}, Logger: nil, Stderr: &testkit.Buffer{}}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.Requests.Add(1)
		if s.Before != nil && s.Before(w, r) {
			return
		}
		user, password, _ := r.BasicAuth()
		if s.User != "" && user+":"+password != s.User {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		git.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	s.CA = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	return s
}

// Repo is a repository with a work tree.
type Repo struct {
	URL  string // by HTTPS, at 127.0.0.1
	Git  string // its directory, which is served
	Work string // its work tree
	Env  []string
	t    testing.TB
}

// NewRepo makes an empty repository with the branch main. more are options of git init.
func (s *Site) NewRepo(name string, more ...string) *Repo {
	s.t.Helper()
	r := &Repo{URL: s.URL + "/" + name + ".git", Git: filepath.Join(s.root, name+".git"), Work: s.t.TempDir(), t: s.t}
	r.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.t.TempDir(), "LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null"}
	output(s.t, r.Work, r.Env, "git", append([]string{"init", "-q", "-b", "main", "--separate-git-dir=" + r.Git}, more...)...)
	for _, c := range [][2]string{{"user.name", "Ann"}, {"user.email", "ann@example.org"}, {"uploadpack.allowFilter", "true"}, {"gc.auto", "0"}, {"commit.gpgsign", "false"}} {
		r.Run("config", c[0], c[1])
	}
	return r
}

// Run runs git in the work tree, and returns what it prints.
func (r *Repo) Run(args ...string) string {
	r.t.Helper()
	return strings.TrimSpace(output(r.t, r.Work, r.Env, "git", args...))
}

// Write writes a file of the work tree, and adds it.
func (r *Repo) Write(name, text string) {
	r.t.Helper()
	file := filepath.Join(r.Work, name)
	testkit.Must(r.t, os.MkdirAll(filepath.Dir(file), 0o755))
	testkit.Must(r.t, os.WriteFile(file, []byte(text), 0o644))
	r.Run("add", "--", name)
}

// Commit writes a file, commits everything that was added, and returns the commit. more are options of git commit, such as -S.
func (r *Repo) Commit(name, text string, more ...string) string {
	r.t.Helper()
	r.Write(name, text)
	r.Run(append([]string{"commit", "-q", "--allow-empty", "-m", "Change " + name}, more...)...)
	return r.Run("rev-parse", "HEAD")
}

// SSHKey makes a key, and returns its file and its public line. The key signs the repository's commits from then on, where they are made with -S.
func (r *Repo) SSHKey(options ...string) (file, public string) {
	r.t.Helper()
	file = filepath.Join(r.t.TempDir(), "key")
	args := append([]string{"-q", "-N", "", "-C", "test", "-f", file}, options...)
	if len(options) == 0 {
		args = append(args, "-t", "ed25519")
	}
	output(r.t, "", r.Env, "ssh-keygen", args...)
	r.SignWith(file)
	return file, strings.TrimSpace(string(testkit.Value(os.ReadFile(file + ".pub"))(r.t)))
}

// SignWith signs with the SSH key in a file from then on.
func (r *Repo) SignWith(file string) {
	r.t.Helper()
	r.Run("config", "gpg.format", "ssh")
	r.Run("config", "user.signingkey", file)
}

// Ring is a keyring of OpenPGP.
type Ring struct {
	home string
	r    *Repo
}

// NewRing makes an empty keyring.
func (r *Repo) NewRing() *Ring {
	r.t.Helper()
	home := testkit.Value(os.MkdirTemp("", "gpg"))(r.t) // gpg-agent's socket needs a short path
	k := &Ring{home, r}
	r.t.Cleanup(func() {
		k.kill()
		_ = os.RemoveAll(home) // gpg-agent may still remove its sockets
	})
	return k
}

func (k *Ring) kill() {
	c := exec.Command("gpgconf", "--kill", "all")
	c.Env = append(k.r.Env, "GNUPGHOME="+k.home)
	_ = c.Run()
}

// GPG runs gpg with the keyring.
func (k *Ring) GPG(args ...string) string {
	k.r.t.Helper()
	return output(k.r.t, "", append(k.r.Env, "GNUPGHOME="+k.home), "gpg", append([]string{"--batch", "--quiet", "--no-tty", "--pinentry-mode", "loopback", "--passphrase", ""}, args...)...)
}

// Key makes a key, and returns its fingerprint. Options come before --quick-gen-key, such as --faked-system-time.
func (k *Ring) Key(user, expires string, options ...string) string {
	k.r.t.Helper()
	k.GPG(append(options, "--quick-gen-key", user, "ed25519", "cert,sign", expires)...)
	for line := range strings.Lines(k.GPG("--list-keys", "--with-colons", user)) {
		if f := strings.Split(line, ":"); f[0] == "fpr" {
			return f[9]
		}
	}
	k.r.t.Fatalf("gpg made no key for %s", user)
	return ""
}

// Revoke revokes a key, with the certificate that gpg made beside it.
func (k *Ring) Revoke(key string) {
	k.r.t.Helper()
	text := string(testkit.Value(os.ReadFile(filepath.Join(k.home, "openpgp-revocs.d", key+".rev")))(k.r.t))
	file := filepath.Join(k.r.t.TempDir(), "revocation")
	testkit.Must(k.r.t, os.WriteFile(file, []byte(strings.Replace(text, ":-----BEGIN", "-----BEGIN", 1)), 0o600)) // the colon guards against accidents
	k.GPG("--import", file)
}

// Sign signs the repository's commits with a key from then on, where they are made with -S. Options are gpg's.
func (k *Ring) Sign(key string, options ...string) {
	k.r.t.Helper()
	script := filepath.Join(k.r.t.TempDir(), "gpg")
	text := "#!/bin/sh\nexec env GNUPGHOME=" + k.home + " gpg --batch --quiet --no-tty --pinentry-mode loopback --passphrase '' " + strings.Join(options, " ") + " \"$@\"\n"
	testkit.Must(k.r.t, os.WriteFile(script, []byte(text), 0o755))
	k.r.Run("config", "gpg.format", "openpgp")
	k.r.Run("config", "gpg.program", script)
	k.r.Run("config", "user.signingkey", key)
}

func output(t testing.TB, dir string, env []string, program string, args ...string) string {
	t.Helper()
	c := exec.Command(program, args...)
	c.Dir, c.Env = dir, env
	var said strings.Builder
	c.Stderr = &said
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", program, strings.Join(args, " "), err, out, said.String())
	}
	return string(out)
}
