package hosts

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/reach"
	"github.com/naupegos/naupegos/internal/testkit"
)

const keyA = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGs5yh3xvjLZdyRSmj2UOqGqQJ8gRlqDBFDM3lGj9bNv"

// TestUserOfTheDocument: the document's user selects blocks of the client configuration, and an error names key files that do not exist.
func TestUserOfTheDocument(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	conf, key := filepath.Join(dir, "config"), filepath.Join(dir, "key")
	testkit.Must(t, os.WriteFile(key, []byte("x"), 0o600))
	testkit.Must(t, os.WriteFile(conf, []byte("Match user ann\n  IdentityFile "+key+"\nMatch user bob\n  IdentityFile ~/id-%p-%r\n"), 0o600))
	for _, c := range []struct {
		all, own string
		keys     v1alpha1.Hosts
		want     string // the key, or an error
	}{
		{all: "ann", want: key}, {own: "ann", all: "bob", want: key}, {all: "root"},
		{own: "bob", all: "ann", want: "no IdentityFile exists: " + dir + "/id-22-bob"},
		{all: "bob", keys: v1alpha1.Hosts{SSHAgent: true}}, {all: "bob", keys: v1alpha1.Hosts{SSHKeyFile: "k"}},
	} {
		doc := c.keys
		doc.User, doc.SSHConfig, doc.Port = c.all, conf, 22
		m := provider.Machine{Name: "m1", Address: "10.0.0.11"}
		err := newLogins(&doc).fill(&m, &v1alpha1.HostMachine{Address: m.Address, User: c.own, HostKey: keyA})
		if err != nil {
			testkit.Fails(t, err, fail.Invalid, c.want)
		} else if m.Login.KeyFile != c.want {
			t.Errorf("%+v: the key is %q", c, m.Login.KeyFile)
		}
	}
}

// TestLogins: the document's settings of a machine have precedence, then the client configuration, then the document's settings for all machines.
func TestLogins(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	conf, known, key := filepath.Join(dir, "config"), filepath.Join(dir, "known"), filepath.Join(dir, "key")
	testkit.Must(t, os.WriteFile(key, []byte("x"), 0o600))
	testkit.Must(t, os.WriteFile(known, []byte("198.51.100.11 "+keyA+"\n[bastion.example.org]:2200 "+keyA+"\n"), 0o600))
	testkit.Must(t, os.WriteFile(conf, []byte("Host cp1\n  HostName 198.51.100.11\n  User ubuntu\n  IdentityFile "+key+"\n  IdentityAgent "+dir+"/a.sock\n  ProxyJump inner\n"+
		"Host inner\n  ProxyJump me@bastion\nHost bastion\n  HostName bastion.example.org\n  Port 2200\n  IdentityAgent none\n  CertificateFile "+key+"\nHost loop\n  ProxyJump loop\nHost a\n  ProxyJump b\nHost b\n  ProxyJump a\nHost *\n  UserKnownHostsFile "+known+"\n"), 0o600))
	for _, c := range []struct {
		name string
		doc  v1alpha1.Hosts
		host v1alpha1.HostMachine
		want provider.Machine
	}{
		{"plain", v1alpha1.Hosts{User: "root", Port: 22}, v1alpha1.HostMachine{HostKey: keyA}, provider.Machine{User: "root", Port: 22, HostKeys: []string{keyA}}},
		{"own", v1alpha1.Hosts{User: "root", Port: 22, SudoPassword: &v1alpha1.PasswordSource{Env: "A"}},
			v1alpha1.HostMachine{HostKey: keyA, User: "me", Port: 9022, SSHKeyFile: "k", SSHAddress: "198.51.100.1", SudoPassword: &v1alpha1.PasswordSource{File: "p"}},
			provider.Machine{User: "me", Port: 9022, HostKeys: []string{keyA}, Login: provider.Login{Address: "198.51.100.1", KeyFile: "k", Sudo: "file:p"}}},
		{"bastions", v1alpha1.Hosts{User: "root", Port: 22, SudoPassword: &v1alpha1.PasswordSource{Prompt: true},
			Bastions: []v1alpha1.Bastion{{Address: "203.0.113.1", HostKey: keyA, User: "jump", Port: 2222, SSHKeyFile: "j"}, {Address: "203.0.113.2", HostKey: keyA}}},
			v1alpha1.HostMachine{HostKey: keyA},
			provider.Machine{User: "root", Port: 22, HostKeys: []string{keyA}, Login: provider.Login{Sudo: "prompt", Via: []provider.Jump{
				{Address: "203.0.113.1", Port: 2222, User: "jump", KeyFile: "j", HostKeys: []string{keyA}}, {Address: "203.0.113.2", Port: 22, User: "root", HostKeys: []string{keyA}}}}}},
		{"configured", v1alpha1.Hosts{User: "root", Port: 22, SSHConfig: conf}, v1alpha1.HostMachine{},
			provider.Machine{User: "ubuntu", Port: 22, HostKeys: []string{keyA}, Login: provider.Login{Address: "198.51.100.11", KeyFile: key, Agent: filepath.Join(dir, "a.sock"), Via: []provider.Jump{
				{Address: "bastion.example.org", Port: 2200, User: "me", CertFiles: []string{key}, Agent: "none", HostKeys: []string{keyA}}, {Address: "inner", Port: 22, User: "root"}}}}},
	} {
		m := provider.Machine{Name: "cp1", Address: "10.0.0.11"}
		c.host.Address = m.Address
		testkit.Must(t, newLogins(&c.doc).fill(&m, &c.host))
		c.want.Name, c.want.Address = m.Name, m.Address
		if diff := cmp.Diff(c.want, m); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
	for name, want := range map[string]string{"loop": "jumphost loop via loop", "a": "jump hosts follow one another"} {
		err := newLogins(&v1alpha1.Hosts{SSHConfig: conf}).fill(&provider.Machine{Name: name}, &v1alpha1.HostMachine{})
		testkit.Fails(t, err, fail.Invalid, want)
	}
	h := reach.Host(provider.Machine{Name: "m", Address: "10.0.0.1", Login: provider.Login{Via: []provider.Jump{{Address: "first"}, {Address: "second"}}}})
	if len(h.Via) != 1 || h.Via[0].Address != "second" || len(h.Via[0].Via) != 1 || h.Via[0].Via[0].Address != "first" {
		t.Errorf("the chain is %+v", h)
	}
}

// TestHostKeyAlias: a host with an alias is known only by the alias, on any port, as for ssh.
func TestHostKeyAlias(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	conf, known := filepath.Join(dir, "config"), filepath.Join(dir, "known")
	testkit.Must(t, os.WriteFile(known, []byte("harbour "+keyA+"\n10.0.0.12 "+keyA+"\n"), 0o600))
	testkit.Must(t, os.WriteFile(conf, []byte("Host cp1\n  HostName 10.0.0.11\n  Port 2222\n  HostKeyAlias harbour\nHost cp2\n  HostName 10.0.0.12\n  HostKeyAlias quay\n"+
		"Host cp3\n  ProxyJump bastion\nHost bastion\n  HostKeyAlias harbour\nHost *\n  UserKnownHostsFile "+known+"\n"), 0o600))
	l := newLogins(&v1alpha1.Hosts{SSHConfig: conf, User: "root", Port: 22})
	for name, want := range map[string][]string{"cp1": {keyA}, "cp2": nil} {
		m := provider.Machine{Name: name}
		testkit.Must(t, l.fill(&m, &v1alpha1.HostMachine{}))
		if !slices.Equal(m.HostKeys, want) {
			t.Errorf("%s has the keys %q, want %q", name, m.HostKeys, want)
		}
	}
	m := provider.Machine{Name: "cp3"}
	testkit.Must(t, l.fill(&m, &v1alpha1.HostMachine{}))
	if len(m.Login.Via) != 1 || !slices.Equal(m.Login.Via[0].HostKeys, []string{keyA}) {
		t.Errorf("the jump host is %+v", m.Login.Via)
	}
}

// TestAuthorityOfHostKeys: a host whose keys an authority signs is not trusted on first use; a key of its own suffices.
func TestAuthorityOfHostKeys(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	conf, known := filepath.Join(dir, "config"), filepath.Join(dir, "known")
	testkit.Must(t, os.WriteFile(known, []byte("@cert-authority *.corp.example,harbour "+keyA+"\ncp3.corp.example "+keyA+"\n"), 0o600))
	testkit.Must(t, os.WriteFile(conf, []byte("Host cp1\n  HostName cp1.corp.example\nHost cp2\n  HostKeyAlias harbour\nHost cp3\n  HostName cp3.corp.example\n"+
		"Host cp4\n  HostName 10.0.0.4\n  ProxyJump cp1\nHost *\n  UserKnownHostsFile "+known+"\n"), 0o600))
	for _, first := range []bool{true, false} {
		l := newLogins(&v1alpha1.Hosts{SSHConfig: conf, User: "root", Port: 22, TrustOnFirstUse: first})
		for _, name := range []string{"cp1", "cp2", "cp4"} {
			testkit.Fails(t, l.fill(&provider.Machine{Name: name}, &v1alpha1.HostMachine{}), fail.Refused, "@cert-authority", known)
		}
		m := provider.Machine{Name: "cp1"}
		testkit.Must(t, l.fill(&m, &v1alpha1.HostMachine{HostKey: keyA}))
		m = provider.Machine{Name: "cp3"}
		if testkit.Must(t, l.fill(&m, &v1alpha1.HostMachine{})); !slices.Equal(m.HostKeys, []string{keyA}) {
			t.Errorf("%v", m.HostKeys)
		}
	}
}

// TestKeyWithoutPort: a known_hosts line without a port applies to a host on another port if no line names that port, unless the first key is trusted: the
// line may be that of another machine behind the same address.
func TestKeyWithoutPort(t *testing.T) {
	const keyB = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAINVGOquRPP5AaKh1Fiun2SMOML+A5rSwA17xCIFyRdtN"
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	conf, known := filepath.Join(dir, "config"), filepath.Join(dir, "known")
	testkit.Must(t, os.WriteFile(known, []byte("10.0.0.11 "+keyA+"\n10.0.0.12 "+keyA+"\n[cp2]:2222 "+keyB+"\n"), 0o600))
	testkit.Must(t, os.WriteFile(conf, []byte("Host *\n  Port 2222\n  UserKnownHostsFile "+known+"\n"), 0o600))
	for _, c := range []struct {
		name, address string
		trust         bool
		want          []string
	}{
		{"cp1", "10.0.0.11", false, []string{keyA}},
		{"cp1", "10.0.0.11", true, nil},
		{"cp2", "10.0.0.12", false, []string{keyB}},
		{"cp2", "10.0.0.12", true, []string{keyB}},
	} {
		m := provider.Machine{Name: c.name, Address: c.address}
		testkit.Must(t, newLogins(&v1alpha1.Hosts{SSHConfig: conf, User: "root", Port: 22, TrustOnFirstUse: c.trust}).fill(&m, &v1alpha1.HostMachine{Address: c.address}))
		if !slices.Equal(m.HostKeys, c.want) {
			t.Errorf("%s, first key trusted %t: %q, want %q", c.name, c.trust, m.HostKeys, c.want)
		}
	}
}

// TestSudoOfMachines: each machine with its own prompt gets its own password.
func TestSudoOfMachines(t *testing.T) {
	own := &v1alpha1.PasswordSource{Prompt: true}
	for _, c := range []struct {
		all, own *v1alpha1.PasswordSource
		want     string
	}{{nil, own, "prompt:cp1"}, {own, nil, "prompt"}, {own, own, "prompt:cp1"}, {own, &v1alpha1.PasswordSource{Env: "A"}, "env:A"}} {
		m := provider.Machine{Name: "cp1"}
		testkit.Must(t, newLogins(&v1alpha1.Hosts{SudoPassword: c.all}).fill(&m, &v1alpha1.HostMachine{HostKey: keyA, SudoPassword: c.own}))
		if m.Login.Sudo != c.want {
			t.Errorf("the source is %q, want %q", m.Login.Sudo, c.want)
		}
	}
}
