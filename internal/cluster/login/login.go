// Package login finds the keys and passwords that log in to hosts given by address: in the operator's files, environment, SSH agent and terminal, or in
// a credential of the store.
//
// It keeps them in memory alone. It knows documents and SSH, and neither clusters nor providers.
package login

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/remote"
)

// Options are the inputs of Logins.
type Options struct {
	Hosts      *v1alpha1.Hosts
	Credential []byte                                // the key that Hosts.Credential names
	Closed     bool                                  // nothing but the credential may be used: the document is not the operator's own
	Ask        func(question string) (string, error) // asks on the operator's terminal, unseen; nil: there is none
}

// Logins answers a remote.Dialer. It is safe for concurrent use.
type Logins struct {
	o Options

	mu        sync.Mutex
	agents    map[string][]remote.Key // by remote.Host.Agent
	keys      map[fileKey][]remote.Key
	passwords map[string]string // by source
}

// fileKey is a key's file, and the agent that may hold the key instead.
type fileKey struct{ file, agent string }

// New returns the logins to hosts. It fails if a key of the document can't be read, before a host is asked anything.
func New(o Options) (*Logins, error) {
	l := &Logins{o: o, agents: map[string][]remote.Key{}, keys: map[fileKey][]remote.Key{}, passwords: map[string]string{}}
	if len(o.Credential) > 0 {
		key, err := remote.ParseKey(o.Credential)
		if err != nil {
			return nil, fail.Wrap(fail.KindOf(err), err, "read credential %s", o.Hosts.Credential)
		}
		l.keys[fileKey{}] = []remote.Key{key}
	}
	return l, l.ready()
}

func closed(what string) error {
	return fail.New(fail.Refused, "documents may not use %s of the server", what).Do("name a credential: spec.provider.hosts.credential")
}

// agent returns the keys of an SSH agent; the caller holds l.mu.
func (l *Logins) agent(name string) ([]remote.Key, error) {
	if !l.o.Hosts.SSHAgent {
		return nil, nil
	}
	if l.o.Closed {
		return nil, closed("the SSH agent")
	}
	if keys, ok := l.agents[name]; ok {
		return keys, nil
	}
	keys, err := remote.AgentKeys(name)
	if err == nil {
		l.agents[name] = keys
	}
	return keys, err
}

// ready reads every key that needs no question.
func (l *Logins) ready() error {
	l.mu.Lock()
	_, err := l.agent("")
	l.mu.Unlock()
	if err != nil && !l.o.Closed && l.o.Hosts.SSHConfig != "" {
		return nil // hosts may name other agents there
	}
	if err != nil {
		return err
	}
	files := []string{l.o.Hosts.SSHKeyFile}
	for _, b := range l.o.Hosts.Bastions {
		files = append(files, b.SSHKeyFile)
	}
	for _, m := range l.o.Hosts.Machines {
		files = append(files, m.SSHKeyFile)
	}
	slices.Sort(files)
	for _, f := range slices.Compact(files) {
		if f == "" {
			continue
		}
		if data, _, err := l.read(f); err == nil && remote.Locked(data) && l.o.Ask != nil {
			continue // it is unlocked once a host is asked
		}
		if _, err := l.fromFile(f, "", l.o.Ask); err != nil {
			return err
		}
	}
	return nil
}

// Signers returns the keys that log in to a host: that of its file first, so that an agent full of keys does not use up the host's patience.
func (l *Logins) Signers(h remote.Host) ([]remote.Key, error) {
	keys, err := l.ownKeys(h)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	more, err := l.agent(h.Agent)
	l.mu.Unlock()
	if err != nil {
		return nil, err
	}
	all := slices.Clone(keys)
	for _, k := range more {
		if !slices.ContainsFunc(all, func(o remote.Key) bool { return remote.PublicKey(o) == remote.PublicKey(k) }) {
			all = append(all, k)
		}
	}
	if len(all) == 0 {
		return nil, fail.New(fail.Invalid, "there is no key to log in with").Do("name one by sshKeyFile, or add one to the SSH agent: ssh-add")
	}
	return remote.Certified(all, h.CertFiles...)
}

// ownKeys returns the keys of a host's files, or the keys of all hosts if it has none. If a client configuration names no file, ssh's default files apply.
func (l *Logins) ownKeys(h remote.Host) ([]remote.Key, error) {
	all := l.o.Hosts
	switch {
	case h.KeyFile == "" && all.Credential != "":
		return l.keys[fileKey{}], nil
	case h.KeyFile == "" && all.SSHKeyFile == "" && all.SSHConfig != "" && !all.SSHAgent && !l.o.Closed:
		return l.usable(remote.DefaultKeyFiles(), h.Agent)
	case h.KeyFile == "" && all.SSHKeyFile == "":
		return nil, nil
	case h.KeyFile == "":
		return l.fromFile(all.SSHKeyFile, h.Agent, l.o.Ask)
	case len(h.MoreKeys) == 0:
		return l.fromFile(h.KeyFile, h.Agent, l.o.Ask)
	case l.o.Ask == nil:
		return l.usable(append([]string{h.KeyFile}, h.MoreKeys...), h.Agent)
	}
	first, err := l.fromFile(h.KeyFile, h.Agent, l.o.Ask) // ssh asks for its passphrase, too
	if err != nil {
		return l.usable(h.MoreKeys, h.Agent)
	}
	for _, f := range h.MoreKeys {
		if keys, err := l.fromFile(f, h.Agent, nil); err == nil {
			first = append(slices.Clone(first), keys...)
		}
	}
	return first, nil
}

// usable returns the keys of the files that need no question, as ssh passes over a file that it can't use. Only if there are none it asks for the
// passphrase of a locked one, or fails with what is wrong with each.
func (l *Logins) usable(files []string, agent string) (all []remote.Key, err error) {
	var wrong []error
	for _, f := range files {
		keys, err := l.fromFile(f, agent, nil)
		if err != nil {
			wrong = append(wrong, err)
		}
		all = append(all, keys...)
	}
	if len(all) > 0 || len(wrong) == 0 {
		return all, nil
	}
	for _, f := range files {
		if data, _, err := l.read(f); err == nil && l.o.Ask != nil && remote.Locked(data) {
			return l.fromFile(f, agent, l.o.Ask)
		}
	}
	if len(wrong) == 1 {
		return nil, wrong[0]
	}
	return nil, fail.Wrap(fail.KindOf(wrong[0]), errors.Join(wrong...), "none of %d SSH keys can be used", len(wrong))
}

// read reads a private key's file.
func (l *Logins) read(file string) (data []byte, path string, err error) {
	if l.o.Closed {
		return nil, "", closed("files")
	}
	if path, err = Path(file); err != nil {
		return nil, "", err
	}
	if data, err = os.ReadFile(path); err != nil {
		return nil, "", fail.Wrap(fail.Invalid, err, "read the SSH key").At("spec.provider.hosts.sshKeyFile")
	}
	return data, path, nil
}

// fromFile returns the keys of a file: first its certificate, if there is one next to it.
// question asks on the operator's terminal; nil: it must not ask.
func (l *Logins) fromFile(file, agent string, question func(string) (string, error)) ([]remote.Key, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if keys, ok := l.keys[fileKey{file, agent}]; ok {
		return keys, nil
	}
	data, path, err := l.read(file)
	if err != nil {
		return nil, err
	}
	agents, err := l.agent(agent)
	if err != nil {
		return nil, err
	}
	var ask func() (string, error)
	if question != nil {
		ask = func() (string, error) { return question("Passphrase of " + path + ": ") }
	}
	keys, err := remote.FileKeys(path, data, agents, ask)
	if err == nil {
		keys, err = remote.Certified(keys, remote.CertFile(path))
	}
	if err != nil {
		return nil, fail.Wrap(fail.KindOf(err), err, "read the SSH key").At(path)
	}
	l.keys[fileKey{file, agent}] = keys
	return keys, nil
}

// SudoPassword returns the password that a host's sudo asks for. It reads each source once.
func (l *Logins) SudoPassword(_ context.Context, h remote.Host) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	source := h.Sudo
	if source == "prompt" { // each user has a password
		source += " for " + h.User
	}
	if p, ok := l.passwords[source]; ok {
		return p, nil
	}
	if l.o.Closed {
		return "", closed("passwords")
	}
	p, err := l.password(h)
	if err == nil && p == "" {
		err = fail.New(fail.Invalid, "the password is empty").Do("check sudoPassword")
	}
	if err == nil {
		l.passwords[source] = p
	}
	return p, err
}

func (l *Logins) password(h remote.Host) (string, error) {
	source, name, _ := strings.Cut(h.Sudo, ":")
	switch source {
	case "env":
		p, set := os.LookupEnv(name)
		if !set {
			return "", fail.New(fail.Invalid, "the environment variable %s is not set", name).Do("set it for this command")
		}
		return p, nil
	case "file":
		return passwordFile(name)
	}
	if l.o.Ask == nil {
		return "", fail.New(fail.Refused, "sudo asks for a password, and there is no terminal to ask for it").Do("name it by sudoPassword.file or sudoPassword.env")
	}
	if name != "" {
		return l.o.Ask("Password of sudo for " + h.User + " on " + h.Name + ": ")
	}
	return l.o.Ask("Password of sudo for " + h.User + " (" + h.Name + " and other machines): ")
}

// passwordFile reads the first line of a file that only its owner may read.
func passwordFile(name string) (string, error) {
	path, err := Path(name)
	if err != nil {
		return "", err
	}
	f, err := os.Open(path)
	if err != nil {
		return "", fail.Wrap(fail.Invalid, err, "read sudoPassword.file")
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", fail.Wrap(fail.Invalid, err, "read sudoPassword.file")
	}
	switch {
	case !info.Mode().IsRegular() || info.Size() > 4096:
		return "", fail.New(fail.Invalid, "sudoPassword.file is not a file with a password").At(path)
	case info.Mode().Perm()&0o077 != 0:
		return "", fail.New(fail.Refused, "others may read the password (mode %04o)", info.Mode().Perm()).At(path).Do("chmod 600 %s", path)
	}
	data := make([]byte, info.Size())
	n, err := f.ReadAt(data, 0)
	if n < len(data) {
		return "", fail.Wrap(fail.Invalid, err, "read sudoPassword.file")
	}
	line, _, _ := strings.Cut(string(data), "\n")
	return strings.TrimSuffix(line, "\r"), nil
}

// Absolute makes the paths of the user's keys absolute: the hosts' own, and that of all others, which may be empty.
func Absolute(hs []remote.Host, all string) (out []remote.Host, key string, err error) {
	abs := func(path string) string {
		if path == "" || err != nil {
			return path
		}
		path, err = Path(path)
		return path
	}
	for _, h := range hs {
		h.KeyFile, h.CertFiles, h.MoreKeys = abs(h.KeyFile), slices.Clone(h.CertFiles), slices.Clone(h.MoreKeys)
		for i := range h.MoreKeys {
			h.MoreKeys[i] = abs(h.MoreKeys[i])
		}
		for i := range h.CertFiles {
			h.CertFiles[i] = abs(h.CertFiles[i])
		}
		if h.Via, _, err = Absolute(h.Via, ""); err != nil {
			return nil, "", err
		}
		out = append(out, h)
	}
	key = abs(all)
	return out, key, err
}

// ReadFile reads an operator's file.
func ReadFile(path string) ([]byte, error) {
	path, err := Path(path)
	if err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

// Path makes the path of an operator's file absolute; "~/" is the home directory.
func Path(path string) (string, error) {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fail.Wrap(fail.Invalid, err, "find the home directory for %s", path)
		}
		path = filepath.Join(home, rest)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fail.Wrap(fail.Invalid, err, "find %s", path)
	}
	return abs, nil
}
