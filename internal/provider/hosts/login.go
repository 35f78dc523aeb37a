package hosts

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/remote"
)

// logins determines how to log in to machines, from the document and its SSH client configuration. The document's settings of a single machine
// come first, then the configuration, then the document's settings for all machines.
type logins struct {
	doc  *v1alpha1.Hosts
	conf func() (*remote.ClientConfig, error) // nil if the document names none

	mu    sync.Mutex
	known map[string]remote.Known // known_hosts files by path
}

func newLogins(h *v1alpha1.Hosts) *logins {
	l := &logins{doc: h, known: map[string]remote.Known{}}
	if h.SSHConfig != "" {
		l.conf = sync.OnceValues(func() (*remote.ClientConfig, error) {
			path, err := home(h.SSHConfig)
			if err != nil {
				return nil, err
			}
			return remote.ReadClientConfig(path)
		})
	}
	return l
}

// home makes the path of a user's file absolute.
func home(path string) (string, error) {
	rest, ok := strings.CutPrefix(path, "~/")
	if !ok {
		return path, nil
	}
	dir, err := os.UserHomeDir()
	if err != nil {
		return "", fail.Wrap(fail.Invalid, err, "find the home directory for %s", path)
	}
	return filepath.Join(dir, rest), nil
}

// check returns the error of the first machine without a valid login.
func (l *logins) check(machines []v1alpha1.Machine) error {
	for _, m := range machines {
		if err := l.fill(&provider.Machine{Name: m.Name, Address: m.Host.Address}, m.Host); err != nil {
			return fail.Wrap(fail.KindOf(err), err, "find out how machine %s is reached", m.Name)
		}
	}
	return nil
}

// settings looks a host up in the client configuration; without one it returns no settings.
func (l *logins) settings(as remote.As, names ...string) (remote.Settings, error) {
	if l.conf == nil {
		return remote.Settings{}, nil
	}
	conf, err := l.conf()
	if err != nil {
		return remote.Settings{}, err
	}
	as.OtherUser, as.OtherPort = l.doc.User, cmp.Or(as.OtherPort, l.doc.Port)
	return conf.Lookup(as, names...)
}

// fill sets the login of m.
func (l *logins) fill(m *provider.Machine, h *v1alpha1.HostMachine) error {
	s, err := l.settings(remote.As{User: h.User, Port: h.Port}, h.SSHAddress, m.Name, h.Address)
	if err != nil {
		return err
	}
	if err := l.missing(s, h.SSHKeyFile); err != nil {
		return err
	}
	m.User, m.Port = cmp.Or(h.User, s.User, l.doc.User), cmp.Or(h.Port, s.Port, l.doc.Port)
	m.Login = provider.Login{Address: cmp.Or(s.HostName, h.SSHAddress), KeyFile: cmp.Or(h.SSHKeyFile, s.KeyFile), CertFiles: s.CertFiles, Agent: s.Agent}
	if h.SSHKeyFile == "" {
		m.Login.MoreKeys = s.MoreKeys
	}
	if m.Login.Address == m.Address {
		m.Login.Address = ""
	}
	m.Login.Sudo = sudoName(l.doc.SudoPassword, "")
	if h.SudoPassword != nil {
		m.Login.Sudo = sudoName(h.SudoPassword, m.Name)
	}
	if m.Login.Via, err = l.via(s); err != nil {
		return err
	}
	if h.HostKey != "" {
		m.HostKeys = []string{h.HostKey}
		return nil
	}
	m.HostKeys, err = l.hostKeys(s, m.Port, h.SSHAddress, m.Login.Address, m.Address, m.Name)
	return err
}

// missing returns an error if the configuration's key files do not exist, and there are no other keys.
func (l *logins) missing(s remote.Settings, own string) error {
	other := cmp.Or(own, s.KeyFile, l.doc.SSHKeyFile, l.doc.Credential)
	if len(s.Missing) == 0 || other != "" || l.doc.SSHAgent || len(remote.DefaultKeyFiles()) > 0 {
		return nil
	}
	return fail.New(fail.Invalid, "no IdentityFile exists: %s", strings.Join(s.Missing, ", ")).At(l.doc.SSHConfig).Do("name the key by sshKeyFile, or correct IdentityFile")
}

// via lists the jump hosts of a machine.
func (l *logins) via(s remote.Settings) (all []provider.Jump, err error) {
	for _, b := range l.doc.Bastions {
		j, err := l.jump(b.Address, b.User, b.Port)
		if err != nil {
			return nil, err
		}
		if b.SSHKeyFile != "" {
			j.KeyFile, j.MoreKeys = b.SSHKeyFile, nil
		}
		if b.HostKey != "" {
			j.HostKeys = []string{b.HostKey}
		}
		all = append(all, j)
	}
	if len(all) > 0 || s.NoJump {
		return all, nil
	}
	return l.chain(s.Jump, 0)
}

// maxJumps bounds the length of a chain of jump hosts, because a configuration may name a host as its own jump host.
const maxJumps = 8

// chain resolves the jump hosts of jump hosts.
func (l *logins) chain(list []string, depth int) (all []provider.Jump, err error) {
	if depth > maxJumps {
		return nil, fail.New(fail.Invalid, "more than %d jump hosts follow one another: one of them may be its own", maxJumps).At(l.doc.SSHConfig)
	}
	for i, text := range list {
		user, host, port, err := remote.JumpHost(text)
		if err != nil {
			return nil, fail.Wrap(fail.Invalid, err, "read ProxyJump").At(l.doc.SSHConfig)
		}
		own, err := l.settings(remote.As{User: user, Port: port, OtherPort: 22}, host)
		if err != nil {
			return nil, err
		}
		if i == 0 && len(own.Jump) > 0 {
			before, err := l.chain(own.Jump, depth+1)
			if err != nil {
				return nil, err
			}
			all = append(all, before...)
		}
		j, err := l.jump(host, user, port)
		if err != nil {
			return nil, err
		}
		all = append(all, j)
	}
	return all, nil
}

// jump returns one jump host with its login.
func (l *logins) jump(host, user string, port int) (provider.Jump, error) {
	s, err := l.settings(remote.As{User: user, Port: port, OtherPort: 22}, host)
	if err != nil {
		return provider.Jump{}, err
	}
	j := provider.Jump{
		Address: cmp.Or(s.HostName, host), Port: cmp.Or(port, s.Port, 22), User: cmp.Or(user, s.User, l.doc.User),
		KeyFile: s.KeyFile, MoreKeys: s.MoreKeys, CertFiles: s.CertFiles, Agent: s.Agent,
	}
	j.HostKeys, err = l.hostKeys(s, j.Port, host, j.Address)
	return j, err
}

// hostKeys looks up a host's keys under its names in the known_hosts files of the client configuration; none without a configuration.
func (l *logins) hostKeys(s remote.Settings, port int, names ...string) ([]string, error) {
	if l.conf == nil {
		return nil, nil
	}
	if s.Alias != "" { // ssh knows the host by no other name, and under this one has no port
		keys, err := l.lookUp(s, remote.Known.Exact, 22, s.Alias)
		if err == nil && len(keys) == 0 {
			err = l.signed(s, 22, s.Alias)
		}
		return keys, err
	}
	keys, err := l.lookUp(s, remote.Known.Exact, port, names...)
	if err == nil && len(keys) == 0 {
		err = l.signed(s, port, names...)
	}
	if err != nil || len(keys) > 0 || l.doc.TrustOnFirstUse {
		return keys, err // a line without a port may be of another machine behind this address: it must not keep a first key from being trusted
	}
	return l.lookUp(s, remote.Known.Keys, port, names...)
}

// signed returns an error if an authority in a known_hosts file signs the host keys of one of the names.
func (l *logins) signed(s remote.Settings, port int, names ...string) error {
	_, err := l.lookUp(s, func(k remote.Known, name string, port int) ([]string, error) { return nil, k.Signed(name, port) }, port, names...)
	return err
}

// lookUp returns the keys of the first name that a known_hosts file of the client configuration has.
func (l *logins) lookUp(s remote.Settings, keysOf func(remote.Known, string, int) ([]string, error), port int, names ...string) ([]string, error) {
	files := s.KnownHosts
	if len(files) == 0 {
		files = []string{"~/.ssh/known_hosts"}
	}
	for _, file := range files {
		known, err := l.read(file)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if name == "" {
				continue
			}
			if keys, err := keysOf(known, name, port); err != nil || len(keys) > 0 {
				return keys, err
			}
		}
	}
	return nil, nil
}

// read reads a known_hosts file. A missing file has no keys.
func (l *logins) read(file string) (remote.Known, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k, ok := l.known[file]; ok {
		return k, nil
	}
	path, err := home(file)
	if err != nil {
		return remote.Known{}, err
	}
	text, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return remote.Known{}, fail.Wrap(fail.Invalid, err, "read the known host keys")
	}
	k, err := remote.ParseKnown(path, text)
	if err == nil {
		l.known[file] = k
	}
	return k, err
}

// sudoName describes a password's source. The prompt of a single machine names the machine.
func sudoName(p *v1alpha1.PasswordSource, own string) string {
	switch {
	case p == nil:
		return ""
	case p.File != "":
		return "file:" + p.File
	case p.Env != "":
		return "env:" + p.Env
	case p.Prompt && own != "":
		return "prompt:" + own
	case p.Prompt:
		return "prompt"
	}
	return ""
}
