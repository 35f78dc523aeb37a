package login

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/remote"
	"github.com/naupegos/naupegos/internal/testkit"
)

// private creates a private key of a kind, encrypted unless the passphrase is empty.
func private(t *testing.T, kind, passphrase string) (key any, text []byte) {
	t.Helper()
	switch kind {
	case "ed25519":
		_, k, err := ed25519.GenerateKey(rand.Reader)
		testkit.Must(t, err)
		key = k
	case "ecdsa":
		key = testkit.Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	case "rsa":
		key = testkit.Value(rsa.GenerateKey(rand.Reader, 2048))(t)
	}
	if passphrase == "" {
		return key, pem.EncodeToMemory(testkit.Value(ssh.MarshalPrivateKey(key, kind))(t))
	}
	return key, pem.EncodeToMemory(testkit.Value(ssh.MarshalPrivateKeyWithPassphrase(key, kind, []byte(passphrase)))(t))
}

func write(t *testing.T, path string, data []byte) string {
	t.Helper()
	testkit.Must(t, os.WriteFile(path, data, 0o600))
	return path
}

// runAgent runs an SSH agent with keys.
func runAgent(t *testing.T, keys ...any) (socket string) {
	t.Helper()
	ring, dir := agent.NewKeyring(), testkit.Value(os.MkdirTemp("", "agent-"))(t)
	for _, k := range keys {
		testkit.Must(t, ring.Add(agent.AddedKey{PrivateKey: k}))
	}
	l := testkit.Value(net.Listen("unix", filepath.Join(dir, "s")))(t)
	t.Cleanup(func() { _ = l.Close(); _ = os.RemoveAll(dir) })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _ = agent.ServeAgent(ring, c) }()
		}
	}()
	t.Setenv("SSH_AUTH_SOCK", filepath.Join(dir, "s"))
	return filepath.Join(dir, "s")
}

// TestKeys reads keys of all kinds, locked and not, and offers the file's key before an agent full of keys.
func TestKeys(t *testing.T) {
	for _, kind := range []string{"ed25519", "ecdsa", "rsa"} {
		t.Run(kind, func(t *testing.T) {
			raw, locked := private(t, kind, "open sesame")
			path := write(t, filepath.Join(t.TempDir(), "id"), locked)
			hosts := &v1alpha1.Hosts{SSHKeyFile: path}
			_, err := New(Options{Hosts: hosts})
			testkit.Fails(t, err, fail.Invalid, "locked with a passphrase")
			asked := 0
			answer := "wrong"
			l := testkit.Value(New(Options{Hosts: hosts, Ask: func(q string) (string, error) {
				if asked++; !strings.Contains(q, path) {
					t.Errorf("the question is %q", q)
				}
				return answer, nil
			}}))(t)
			if asked > 0 {
				t.Error("a passphrase was asked for before a host was")
			}
			_, err = l.Signers(remote.Host{})
			testkit.Fails(t, err, fail.Unauthorized, "does not unlock the SSH key")
			answer = "open sesame"
			for range 2 {
				if keys := testkit.Value(l.Signers(remote.Host{}))(t); len(keys) != 1 {
					t.Errorf("%d keys", len(keys))
				}
			}
			if asked != 2 {
				t.Errorf("asked %d times", asked)
			}
			var others []any
			for range 5 {
				k, _ := private(t, "ed25519", "")
				others = append(others, k)
			}
			runAgent(t, append(others, raw)...)
			hosts.SSHAgent = true
			keys := testkit.Value(testkit.Value(New(Options{Hosts: hosts}))(t).Signers(remote.Host{}))(t) // the agent has the locked key
			want := testkit.Value(ssh.NewSignerFromKey(raw))(t)
			if len(keys) != 6 || remote.PublicKey(keys[0]) != remote.PublicKey(want) {
				t.Errorf("%d keys, the first is not the file's", len(keys))
			}
		})
	}
}

// TestWhichKey: a host's own key file has precedence, then that of all hosts, then, only with sshConfig, ssh's usual files.
func TestWhichKey(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	testkit.Must(t, os.Mkdir(filepath.Join(dir, ".ssh"), 0o700))
	usual := filepath.Join(dir, ".ssh", "id_ecdsa")
	all, own := filepath.Join(dir, "all"), filepath.Join(dir, "own")
	public := map[string]string{}
	for _, path := range []string{usual, all, own} {
		k, text := private(t, "ecdsa", "")
		write(t, path, text)
		public[path] = remote.PublicKey(testkit.Value(ssh.NewSignerFromKey(k))(t))
	}
	k, text := private(t, "ed25519", "")
	public["credential"] = remote.PublicKey(testkit.Value(ssh.NewSignerFromKey(k))(t))
	for _, c := range []struct {
		o    Options
		file string
		want string
	}{
		{Options{Hosts: &v1alpha1.Hosts{SSHKeyFile: all}}, "", all},
		{Options{Hosts: &v1alpha1.Hosts{SSHKeyFile: "~/all"}}, "", all},
		{Options{Hosts: &v1alpha1.Hosts{SSHKeyFile: all}}, own, own},
		{Options{Hosts: &v1alpha1.Hosts{SSHConfig: "c"}}, "", usual},
		{Options{Hosts: &v1alpha1.Hosts{SSHConfig: "c", SSHKeyFile: all}}, "", all},
		{Options{Hosts: &v1alpha1.Hosts{Credential: "racks"}, Credential: text, Closed: true}, "", "credential"},
	} {
		keys, err := testkit.Value(New(c.o))(t).Signers(remote.Host{KeyFile: c.file})
		if err != nil || len(keys) != 1 || remote.PublicKey(keys[0]) != public[c.want] {
			t.Errorf("%+v, %q: %d keys, %v; want that of %s", c.o.Hosts, c.file, len(keys), err, c.want)
		}
	}
	t.Setenv("SSH_AUTH_SOCK", "")
	for want, o := range map[string]Options{
		"SSH_AUTH_SOCK is not set":             {Hosts: &v1alpha1.Hosts{SSHAgent: true}},
		"read the SSH key":                     {Hosts: &v1alpha1.Hosts{SSHKeyFile: filepath.Join(dir, "nowhere")}},
		"read credential racks":                {Hosts: &v1alpha1.Hosts{Credential: "racks"}, Credential: []byte("nonsense")},
		"may not use the SSH agent of the ser": {Hosts: &v1alpha1.Hosts{SSHAgent: true}, Closed: true},
		"may not use files of the server":      {Hosts: &v1alpha1.Hosts{SSHKeyFile: all}, Closed: true},
	} {
		_, err := New(o)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %s", err, want)
		}
	}
	runAgent(t)
	_, err := testkit.Value(New(Options{Hosts: &v1alpha1.Hosts{SSHAgent: true}}))(t).Signers(remote.Host{})
	testkit.Fails(t, err, fail.Invalid, "there is no key to log in with")
}

// TestSudoPassword reads passwords from the documents' sources, once, and never from a file that others can read.
func TestSudoPassword(t *testing.T) {
	dir := t.TempDir()
	key, text := filepath.Join(dir, "key"), []byte(nil)
	_, text = private(t, "ed25519", "")
	write(t, key, text)
	good, open := write(t, filepath.Join(dir, "good"), []byte("geheim\r\nmore\n")), write(t, filepath.Join(dir, "open"), []byte("geheim"))
	testkit.Must(t, os.Chmod(open, 0o644))
	t.Setenv("NAUPEGOS_TEST_SUDO", "geheim")
	asked := 0
	ask := func(string) (string, error) { asked++; return "geheim", nil }
	for _, c := range []struct {
		sudo   string
		ask    func(string) (string, error)
		closed bool
		want   string
	}{
		{"file:" + good, nil, false, ""},
		{"env:NAUPEGOS_TEST_SUDO", nil, false, ""},
		{"prompt", ask, false, ""},
		{"prompt", nil, false, "there is no terminal to ask for it"},
		{"env:NAUPEGOS_TEST_UNSET", nil, false, "NAUPEGOS_TEST_UNSET is not set"},
		{"file:" + open, nil, false, "others may read the password (mode 0644)"},
		{"file:" + filepath.Join(dir, "nowhere"), nil, false, "read sudoPassword.file"},
		{"file:" + write(t, filepath.Join(dir, "empty"), []byte("\n")), nil, false, "the password is empty"},
		{"file:" + dir, nil, false, "is not a file with a password"},
		{"file:" + good, nil, true, "may not use passwords of the server"},
		{"env:NAUPEGOS_TEST_SUDO", nil, true, "may not use passwords of the server"},
	} {
		o := Options{Hosts: &v1alpha1.Hosts{SSHKeyFile: key}, Ask: c.ask}
		if c.closed {
			o = Options{Hosts: &v1alpha1.Hosts{Credential: "x"}, Credential: text, Closed: true}
		}
		l := testkit.Value(New(o))(t)
		for range 2 {
			p, err := l.SudoPassword(t.Context(), remote.Host{Name: "m", User: "me", Sudo: c.sudo})
			switch {
			case c.want == "" && (err != nil || p != "geheim"):
				t.Errorf("%s: %q, %v", c.sudo, p, err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "geheim")):
				t.Errorf("%s: %v; want %s", c.sudo, err, c.want)
			}
		}
	}
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
}

// TestSudoPrompts: each machine with a prompt of its own, and each user of the common prompt, is asked for once.
func TestSudoPrompts(t *testing.T) {
	_, text := private(t, "ed25519", "")
	var asked []string
	l := testkit.Value(New(Options{Hosts: &v1alpha1.Hosts{SSHKeyFile: write(t, filepath.Join(t.TempDir(), "key"), text)}, Ask: func(q string) (string, error) {
		asked = append(asked, q)
		return "the answer to " + q, nil
	}}))(t)
	for range 2 {
		for _, h := range []remote.Host{
			{Name: "a", User: "me", Sudo: "prompt:a"}, {Name: "b", User: "you", Sudo: "prompt:b"},
			{Name: "c", User: "me", Sudo: "prompt"}, {Name: "d", User: "me", Sudo: "prompt"}, {Name: "e", User: "you", Sudo: "prompt"},
		} {
			p := testkit.Value(l.SudoPassword(t.Context(), h))(t)
			if !strings.Contains(p, " for "+h.User+" ") || strings.Contains(h.Sudo, ":") && !strings.HasSuffix(p, " on "+h.Name+": ") {
				t.Errorf("%s gets %q", h.Name, p)
			}
		}
	}
	if len(asked) != 4 {
		t.Errorf("asked %d times: %q", len(asked), asked)
	}
}

// TestPublicKeyFile: a file with a public key stands for the agent's private one, as for ssh.
func TestPublicKeyFile(t *testing.T) {
	raw, _ := private(t, "ed25519", "")
	other, _ := private(t, "ecdsa", "")
	public := remote.PublicKey(testkit.Value(ssh.NewSignerFromKey(raw))(t))
	path := write(t, filepath.Join(t.TempDir(), "id.pub"), []byte(public+" me@laptop\n"))
	_, err := New(Options{Hosts: &v1alpha1.Hosts{SSHKeyFile: path}, Ask: func(string) (string, error) { t.Error("a passphrase was asked for"); return "", nil }})
	testkit.Fails(t, err, fail.Invalid, "the file has a public key, and no SSH agent that may be used has its private key", "sshAgent: true")
	runAgent(t, other, raw)
	keys := testkit.Value(testkit.Value(New(Options{Hosts: &v1alpha1.Hosts{SSHKeyFile: path, SSHAgent: true}}))(t).Signers(remote.Host{}))(t)
	if len(keys) != 2 || remote.PublicKey(keys[0]) != public {
		t.Errorf("%d keys, the first is not the file's", len(keys))
	}
}

// TestAgentOfHost: a host's own agent takes the place of SSH_AUTH_SOCK, which need not be set if a client configuration may name it.
func TestAgentOfHost(t *testing.T) {
	mine, _ := private(t, "ed25519", "")
	socket := runAgent(t, mine)
	t.Setenv("SSH_AUTH_SOCK", "")
	t.Setenv("HOME", t.TempDir())
	l := testkit.Value(New(Options{Hosts: &v1alpha1.Hosts{SSHAgent: true, SSHConfig: "~/.ssh/config"}}))(t)
	keys := testkit.Value(l.Signers(remote.Host{Agent: socket}))(t)
	if len(keys) != 1 || remote.PublicKey(keys[0]) != remote.PublicKey(testkit.Value(ssh.NewSignerFromKey(mine))(t)) {
		t.Errorf("%d keys of the host's agent", len(keys))
	}
	for agent, want := range map[string]string{"": "SSH_AUTH_SOCK is not set", "none": "there is no key to log in with"} {
		_, err := l.Signers(remote.Host{Agent: agent})
		testkit.Fails(t, err, fail.Invalid, want)
	}
	l = testkit.Value(New(Options{Hosts: &v1alpha1.Hosts{SSHConfig: "~/.ssh/config"}}))(t) // sshAgent is not set
	_, err := l.Signers(remote.Host{Agent: socket})
	testkit.Fails(t, err, fail.Invalid, "there is no key to log in with")
}

// TestCertificates: the certificate next to a key, or one that a client configuration names, is tried before the key.
func TestCertificates(t *testing.T) {
	dir := t.TempDir()
	raw, text := private(t, "rsa", "")
	key, authority := testkit.Value(ssh.NewSignerFromKey(raw))(t), testkit.Value(ssh.NewSignerFromKey(first(private(t, "ed25519", ""))))(t)
	certify := func(name string, of ssh.PublicKey, kind uint32) string {
		c := &ssh.Certificate{Key: of, CertType: kind, ValidPrincipals: []string{"me"}, ValidBefore: ssh.CertTimeInfinity}
		testkit.Must(t, c.SignCert(rand.Reader, authority))
		return write(t, filepath.Join(dir, name), ssh.MarshalAuthorizedKey(c))
	}
	path := write(t, filepath.Join(dir, "id"), text)
	hosts := &v1alpha1.Hosts{SSHKeyFile: path}
	kinds := func(h remote.Host) (all []string) {
		for _, k := range testkit.Value(testkit.Value(New(Options{Hosts: hosts}))(t).Signers(h))(t) {
			all = append(all, k.PublicKey().Type())
		}
		return all
	}
	plain, both := []string{ssh.KeyAlgoRSA}, []string{ssh.CertAlgoRSAv01, ssh.KeyAlgoRSA}
	named := certify("by-authority", key.PublicKey(), ssh.UserCert)
	for _, c := range []struct {
		name string
		h    remote.Host
		want []string
	}{{"none", remote.Host{}, plain}, {"named", remote.Host{CertFiles: []string{named}}, both}, {"of another key", remote.Host{CertFiles: []string{certify("other", authority.PublicKey(), ssh.UserCert)}}, plain}} {
		if got := kinds(c.h); !slices.Equal(got, c.want) {
			t.Errorf("certificate: %s: %q, want %q", c.name, got, c.want)
		}
	}
	certify("id-cert.pub", key.PublicKey(), ssh.UserCert)
	if got := kinds(remote.Host{}); !slices.Equal(got, both) {
		t.Errorf("certificate beside the key: %q", got)
	}
	certify("id-cert.pub", key.PublicKey(), ssh.HostCert)
	_, err := New(Options{Hosts: hosts})
	testkit.Fails(t, err, fail.Invalid, "id-cert.pub", "this is not the SSH certificate of a user")
}

func first(key any, _ []byte) any { return key }
