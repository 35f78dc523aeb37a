package remote

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestClientConfig reads typical ~/.ssh/config files.
func TestClientConfig(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	write := func(path, text string) string {
		path = filepath.Join(dir, path)
		testkit.Must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		testkit.Must(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	key, spaced, byUser := write("key", "x"), write("my key", "x"), write("ubuntu_key", "x")
	cert, stub := write("key-by-ca", "x"), write("stub.pub", "x")
	t.Setenv("NAUPEGOS_TEST_KEYS", dir)
	t.Setenv("NAUPEGOS_TEST_JUMP", "second")
	write("conf.d/prod", "Host db\n  HostName 198.51.100.9\n")
	path := write("config", "# mine\r\nInclude "+dir+"/conf.d/*\n"+`
Host cp1	cp2
  HostName %h.example.org
  User ubuntu
  Port 2222
  IdentityFile ~/none
  IdentityFile `+key+`
  ProxyJump jump@bastion:2200,inner
Host six
  HostName fd00::11
  ProxyJump jump@[fd00::1]:2200
Host=quoted
  IdentityFile "`+spaced+`"
  HostKeyAlias harbour
Host tokens
  User ubuntu
  IdentityFile `+dir+`/%r_key
Host variable
  IdentityFile ${NAUPEGOS_TEST_KEYS}/key
  CertificateFile ${NAUPEGOS_TEST_KEYS}/key-by-ca
  CertificateFile ~/no-cert
  IdentityAgent `+dir+`/%r.sock
  User me
Host several
  IdentityFile ~/none
  IdentityFile `+key+`
  IdentityFile ~/ubuntu_key
  IdentityFile ~/key
Host stub
  IdentityFile ~/stub
  IdentityAgent none
Host odd
  ProxyCommand nc %h %p
Host direct
  ProxyJump none
Host jumptokens
  User core
  HostName 10.0.9.9
  ProxyJump %r@jump-%h:2201,ops@${NAUPEGOS_TEST_JUMP}
Host *.example.net !x.example.net
  Port 2201
Match exec "test %n = executed"
  User byexec
Match host 10.0.0.7 user root
  Port 99
Host 10.0.0.*
  User core
  UserKnownHostsFile `+dir+`/known /dev/null
Host *
  ServerAliveInterval 5
  CanonicalizeHostname no
`)
	c := testkit.Value(ReadClientConfig(path))(t)
	nobody := testkit.Value(c.Lookup(As{}, "nobody"))(t)
	if nobody.HostName+nobody.User+nobody.KeyFile+nobody.Alias != "" || nobody.Port != 0 || nobody.Jump != nil || nobody.NoJump || len(nobody.KnownHosts) == 0 {
		t.Errorf("a host without settings: %+v", nobody)
	}
	known := nobody.KnownHosts
	for _, x := range []struct {
		names string
		want  Settings
	}{
		{"cp1,10.0.0.11", Settings{HostName: "cp1.example.org", User: "ubuntu", Port: 2222, KeyFile: key, Jump: []string{"jump@bastion:2200", "inner"}}},
		{"cp2", Settings{HostName: "cp2.example.org", User: "ubuntu", Port: 2222, KeyFile: key, Jump: []string{"jump@bastion:2200", "inner"}}},
		{",db", Settings{HostName: "198.51.100.9"}},
		{"six", Settings{HostName: "fd00::11", Jump: []string{"jump@[fd00::1]:2200"}}},
		{"quoted", Settings{KeyFile: spaced, Alias: "harbour"}},
		{"tokens", Settings{User: "ubuntu", KeyFile: byUser}},
		{"variable", Settings{User: "me", KeyFile: key, CertFiles: []string{cert}, Agent: filepath.Join(dir, "me.sock")}},
		{"several", Settings{KeyFile: key, MoreKeys: []string{byUser}}},
		{"stub", Settings{KeyFile: stub, Agent: "none"}},
		{"direct", Settings{NoJump: true}},
		{"jumptokens", Settings{HostName: "10.0.9.9", User: "core", Jump: []string{"core@jump-10.0.9.9:2201", "ops@second"}}},
		{"a.example.net", Settings{Port: 2201}},
		{"x.example.net", Settings{}},
		{"executed", Settings{User: "byexec"}},
		{"unknown,10.0.0.11", Settings{User: "core", KnownHosts: append([]string{dir + "/known", "/dev/null"}, known[2:]...)}},
		{"unknown,192.0.2.1", Settings{}},
	} {
		if x.want.KnownHosts == nil {
			x.want.KnownHosts = known
		}
		s, err := c.Lookup(As{}, strings.Split(x.names, ",")...)
		if err != nil || !s.equal(x.want) {
			t.Errorf("%s is %+v, %v; want %+v", x.names, s, err, x.want)
		}
	}
	_, err := c.Lookup(As{}, "odd")
	testkit.Fails(t, err, fail.Invalid, "host odd has a ProxyCommand, which is not supported")
	for text, want := range map[string]string{"Host a\n  Port many\n": "line 2", "Host a\n  Colour blue\n": "line 2: Bad configuration option"} {
		_, err = testkit.Value(ReadClientConfig(write("bad", text)))(t).Lookup(As{}, "a")
		testkit.Fails(t, err, fail.Invalid, want)
	}
	_, err = ReadClientConfig(filepath.Join(dir, "nowhere"))
	testkit.Fails(t, err, fail.Invalid, "read the SSH client configuration")
	_, err = ReadClientConfig(write("a*b", ""))
	testkit.Fails(t, err, fail.Invalid, "takes for a pattern")
	t.Setenv("PATH", dir)
	_, err = ReadClientConfig(path)
	testkit.Fails(t, err, fail.Invalid, "OpenSSH's client is not installed")
}

// TestClientConfigFinal: blocks that ssh reads the second time count, and do not affect hosts that they do not match.
func TestClientConfigFinal(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	for text, want := range map[string]map[string]Settings{
		"Host cp9\n  HostName 10.9.0.9\nMatch final host 10.9.*\n  User byfinal\n  ProxyJump bastion\n": {
			"cp9": {HostName: "10.9.0.9", User: "byfinal", Jump: []string{"bastion"}}, "10.9.0.1": {User: "byfinal", Jump: []string{"bastion"}}, "other": {}},
		"Host plain\n  User me\nMatch final all\n  Port 2222\n": {"plain": {User: "me", Port: 2222}, "other": {Port: 2222}},
		"CanonicalizeHostname yes\nCanonicalizeFallbackLocal yes\nHost plain\n  User me\nMatch canonical host 10.9.*\n  User ops\n  ProxyJump bastion\n": {
			"10.9.0.9": {User: "ops", Jump: []string{"bastion"}}, "plain": {User: "me"}},
	} {
		path := filepath.Join(dir, "config")
		testkit.Must(t, os.WriteFile(path, []byte(text), 0o600))
		c := testkit.Value(ReadClientConfig(path))(t)
		for name, s := range want {
			got := testkit.Value(c.settings(name, As{}))(t)
			got.KnownHosts = nil
			if !got.equal(s) {
				t.Errorf("%s\n%s is %+v, want %+v", text, name, got, s)
			}
		}
	}
	if left := testkit.Value(filepath.Glob(filepath.Join(os.TempDir(), "naupegos-ssh-*")))(t); len(left) > 0 {
		t.Errorf("files are left: %v", left)
	}
}

// TestClientConfigLogin: the document's user and port select blocks and replace tokens, as -l and -p of ssh do.
func TestClientConfigLogin(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	file := func(name string) string {
		path := filepath.Join(dir, name)
		testkit.Must(t, os.WriteFile(path, []byte("x"), 0o600))
		return path
	}
	anns, byRole, byPort, spaced, known := file("ann key"), file("id-ops"), file("id-2201-"+strconv.Itoa(os.Getuid())), file("my known"), file("known")
	first := testkit.Value(os.Hostname())(t)
	first, _, _ = strings.Cut(first, ".")
	byHost := file("id " + first + " alias m6")
	const config = `
Match user ann
  Port 2200
  IdentityFile ~/"ann key"
Host m2
  IdentityFile ~/id-%r
Host m3
  IdentityFile ~/id-%p-%i
Host m4
  UserKnownHostsFile "~/my known" ~/known
  GlobalKnownHostsFile "~/my known"
Host m5
  UserKnownHostsFile ~/kno%r ~/known-%p
Host m6
  HostKeyAlias alias
  IdentityFile "~/id %L %k %n"
Host m7
  IdentityFile ~/no-%p-%r
Host m8
  User bob
  Port 2222
  IdentityFile ~/id-%r-%p
`
	path := filepath.Join(dir, "config")
	testkit.Must(t, os.WriteFile(path, []byte(strings.NewReplacer(`~/"ann key"`, `"~/ann key"`, "KnownHostsFile \"~/", "KnownHostsFile \""+dir+"/", " ~/k", " "+dir+"/k").Replace(config)), 0o600))
	c := testkit.Value(ReadClientConfig(path))(t)
	for _, x := range []struct {
		as   As
		name string
		want Settings // without KnownHosts: any
	}{
		{As{User: "ann"}, "m1", Settings{User: "ann", Port: 2200, KeyFile: anns}},
		{As{OtherUser: "ann", OtherPort: 22}, "m1", Settings{Port: 2200, KeyFile: anns}},
		{As{User: "ann", Port: 9}, "m1", Settings{User: "ann", Port: 9, KeyFile: anns}},
		{As{User: "ops"}, "m2", Settings{User: "ops", KeyFile: byRole}},
		{As{OtherUser: "ops"}, "m2", Settings{KeyFile: byRole}},
		{As{OtherPort: 2201}, "m3", Settings{KeyFile: byPort}},
		{As{Port: 2201}, "m3", Settings{Port: 2201, KeyFile: byPort}},
		{As{}, "m4", Settings{KnownHosts: []string{spaced, known, spaced}}},
		{As{User: "wn", Port: 1}, "m5", Settings{User: "wn", KnownHosts: []string{known, dir + "/known-1"}}},
		{As{OtherUser: "wn", OtherPort: 7}, "m5", Settings{KnownHosts: []string{known, dir + "/known-7"}}},
		{As{}, "m6", Settings{Alias: "alias", KeyFile: byHost}},
		{As{OtherUser: "root"}, "m7", Settings{Missing: []string{dir + "/no-22-root"}}},
		{As{OtherUser: "root"}, "m8", Settings{User: "bob", Port: 2222, Missing: []string{dir + "/id-bob-2222"}}},
	} {
		s, err := c.Lookup(x.as, x.name)
		if len(x.want.KnownHosts) == 0 {
			s.KnownHosts = nil
		} else {
			s.KnownHosts = s.KnownHosts[:min(len(x.want.KnownHosts), len(s.KnownHosts))]
		}
		if x.as.Port == 1 {
			s.Port = 0
		}
		if err != nil || fmt.Sprint(s) != fmt.Sprint(x.want) {
			t.Errorf("%s as %+v is %+v, %v; want %+v", x.name, x.as, s, err, x.want)
		}
	}
}

func TestJumpHost(t *testing.T) {
	for text, want := range map[string]struct {
		user, host string
		port       int
		fails      bool
	}{
		"bastion": {host: "bastion"}, "me@bastion": {user: "me", host: "bastion"}, "me@bastion:2222": {user: "me", host: "bastion", port: 2222},
		"me@corp@bastion": {user: "me@corp", host: "bastion"}, "ssh://me@bastion:2222": {user: "me", host: "bastion", port: 2222},
		"[fd00::1]:2222": {host: "fd00::1", port: 2222}, "fd00::1": {host: "fd00::1"}, "bastion:ssh": {fails: true}, "me@": {fails: true}, "bastion:0": {fails: true},
		`CORP\me@bastion`: {user: `CORP\me`, host: "bastion"}, "fe80::1%eth0": {host: "fe80::1%eth0"}, "me@$JUMP": {fails: true}, `b\ c`: {fails: true}, "$(id)@b": {fails: true},
	} {
		user, host, port, err := JumpHost(text)
		if (err != nil) != want.fails || err == nil && (user != want.user || host != want.host || port != want.port) {
			t.Errorf("%s: %q %q %d, %v", text, user, host, port, err)
		}
	}
}

// TestAgentKeys logs in with a key of an SSH agent, and with the agent's half of a locked file.
func TestAgentKeys(t *testing.T) {
	dir := t.TempDir()
	socket := filepath.Join(dir, "agent")
	private, public, err := GenerateKey("mine")
	testkit.Must(t, err)
	raw := testkit.Value(ssh.ParseRawPrivateKey(private))(t)
	ring := agent.NewKeyring()
	testkit.Must(t, ring.Add(agent.AddedKey{PrivateKey: raw}))
	l := testkit.Value(net.Listen("unix", socket))(t)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _ = agent.ServeAgent(ring, c) }()
		}
	}()
	t.Setenv("SSH_AUTH_SOCK", socket)
	keys := testkit.Value(AgentKeys(""))(t)
	if len(keys) != 1 {
		t.Fatalf("%d keys", len(keys))
	}
	s := newServer(t, keys[0].PublicKey())
	d := dialer(t, Options{Signers: func(Host) ([]Key, error) { return keys, nil }})
	_, err = d.Run(t.Context(), s.host("m"), nil, "true")
	testkit.Must(t, err)

	locked := filepath.Join(dir, "id")
	testkit.Must(t, os.WriteFile(locked+".pub", []byte(public+"\n"), 0o600))
	found := testkit.Value(FileKeys(locked, []byte("-----BEGIN OPENSSH PRIVATE KEY-----\nlocked"), keys, nil))(t)
	if len(found) != 1 || PublicKey(found[0]) != PublicKey(keys[0]) {
		t.Errorf("found %v", found)
	}
	_, err = FileKeys(locked, []byte("nonsense"), nil, nil)
	testkit.Fails(t, err, fail.Invalid, "read the SSH private key")
	t.Setenv("SSH_AUTH_SOCK", "")
	_, err = AgentKeys("")
	testkit.Fails(t, err, fail.Invalid, "SSH_AUTH_SOCK is not set")
	t.Setenv("NAUPEGOS_TEST_AGENT", socket)
	for name, want := range map[string]int{socket: 1, "$NAUPEGOS_TEST_AGENT": 1, "none": 0} {
		if keys := testkit.Value(AgentKeys(name))(t); len(keys) != want {
			t.Errorf("the agent %s has %d keys", name, len(keys))
		}
	}
	_, err = AgentKeys(filepath.Join(dir, "nowhere"))
	testkit.Fails(t, err, fail.Invalid, "connect to the SSH agent", "nowhere")
}

// TestChain reaches a host behind two jump hosts, each with its own key.
func TestChain(t *testing.T) {
	keys := map[string]Key{"first": newKey(t), "second": newKey(t), "": newKey(t)}
	first, second, target := newServer(t, keys["first"].PublicKey()), newServer(t, keys["second"].PublicKey()), newServer(t, keys[""].PublicKey())
	a, b, h := first.host("a"), second.host("b"), target.host("m")
	a.KeyFile, b.KeyFile = "first", "second"
	b.Via = []Host{a}
	h.Via = []Host{b}
	d := dialer(t, Options{Signers: func(h Host) ([]Key, error) { return []Key{keys[h.KeyFile]}, nil }})
	_, err := d.Run(t.Context(), h, nil, "true")
	testkit.Must(t, err)
	if first.Logins.Load() != 1 || second.Logins.Load() != 1 || target.Logins.Load() != 1 {
		t.Errorf("%d, %d and %d logins", first.Logins.Load(), second.Logins.Load(), target.Logins.Load())
	}
}
