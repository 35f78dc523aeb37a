package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

// ClientConfig is an OpenSSH client configuration. OpenSSH's own program reads it (ssh -G), so that Include, Match exec and all tokens mean what they
// mean to ssh. It is safe for concurrent use.
type ClientConfig struct {
	path string

	mu   sync.Mutex
	seen map[string]Settings // by name
}

// Settings are a host's settings of a client configuration. Empty fields are unset.
type Settings struct {
	HostName   string
	Port       int
	User       string
	KeyFile    string   // the first that exists; a public key stands for the agent's private one
	MoreKeys   []string // files that exist of further keys, which are offered after it
	CertFiles  []string // existing certificates of the keys
	Agent      string   // IdentityAgent: a socket, SSH_AUTH_SOCK, or none
	Jump       []string // [USER@]HOST[:PORT] of each jump host, the first one reached from here
	NoJump     bool     // ProxyJump none
	KnownHosts []string // files
	Alias      string   // under which known hosts are looked up: HostKeyAlias
}

// equal reports whether the configuration says the same of two names.
func (s Settings) equal(o Settings) bool { return fmt.Sprint(s) == fmt.Sprint(o) }

const (
	// unset stands for what the configuration leaves open: ssh prints defaults as if they were set.
	unset = "naupegos-unset"
	// unsetPort does so for ports. Port 1 is tcpmux's.
	unsetPort = "1"
	// configTimeout bounds one look-up: Match exec runs commands.
	configTimeout = 15 * time.Second
)

// ReadClientConfig returns the client configuration of a file.
func ReadClientConfig(path string) (*ClientConfig, error) {
	abs, err := filepath.Abs(path)
	if err == nil {
		var f *os.File
		if f, err = os.Open(abs); err == nil {
			err = f.Close()
		}
	}
	if err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "read the SSH client configuration").Do("name another by sshConfig, or leave it out")
	}
	if strings.ContainsAny(abs, "\"\\*?[\n") {
		return nil, fail.New(fail.Invalid, "the path of the SSH client configuration has a character that OpenSSH takes for a pattern").At(abs).Do("name the file without it")
	}
	if _, err := exec.LookPath("ssh"); err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "read the SSH client configuration: OpenSSH's client is not installed").At(abs).
			Do("apt-get install openssh-client, or leave sshConfig out and write user, port, sshAddress and bastions into the document")
	}
	return &ClientConfig{path: abs, seen: map[string]Settings{}}, nil
}

// Lookup returns a host's settings: those of the first name for which the configuration has any of its own, else those of the last name.
func (c *ClientConfig) Lookup(names ...string) (Settings, error) {
	nobody, err := c.settings("naupegos-nobody")
	if err != nil {
		return Settings{}, err
	}
	var s Settings
	for _, name := range names {
		if name == "" {
			continue
		}
		if s, err = c.settings(name); err != nil {
			return Settings{}, err
		}
		if !s.equal(nobody) {
			break
		}
	}
	return s, nil
}

// settings asks ssh once for each name.
func (c *ClientConfig) settings(name string) (Settings, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s, ok := c.seen[name]; ok {
		return s, nil
	}
	text, err := c.ask(name)
	if err != nil {
		return Settings{}, err
	}
	s, err := c.parse(name, text)
	if err == nil {
		c.seen[name] = s
	}
	return s, err
}

// ask runs ssh -G. Its configuration includes the user's, and ends with what stands for values that are not set. Where the user's has Match final, or
// canonical names, ssh reads it twice, and the end counts for the second time alone: what comes first is what ssh takes.
func (c *ClientConfig) ask(name string) (string, error) {
	out, said, err := c.run(name, "all", "-v")
	switch {
	case err != nil:
		out, _, err = c.run(name, "all") // its words without those of -v
	case strings.Contains(said, "re-parsing configuration"):
		out, _, err = c.run(name, "final all")
	}
	return out, err
}

// run runs ssh -G once, with a wrapper around the user's configuration whose last values are for a Match. It is a file: ssh can't read a pipe twice.
func (c *ClientConfig) run(name, match string, flags ...string) (stdout, stderr string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), configTimeout)
	defer cancel()
	f, err := os.CreateTemp("", "naupegos-ssh-")
	if err != nil {
		return "", "", fail.Wrap(fail.Refused, err, "write a file for ssh").Do("make room in the directory for temporary files")
	}
	defer func() { _ = os.Remove(f.Name()) }()
	_, err = fmt.Fprintf(f, "Include \"%s\"\nMatch %s\nUser %s\nPort %s\nIdentityFile %s\nProxyJump %s\n", c.path, match, unset, unsetPort, unset, unset)
	if err = errors.Join(err, f.Close()); err != nil {
		return "", "", fail.Wrap(fail.Refused, err, "write a file for ssh").At(f.Name()).Do("make room there")
	}
	cmd := exec.CommandContext(ctx, "ssh", append(flags, "-T", "-G", "-F", f.Name(), "--", name)...)
	cmd.WaitDelay = time.Second
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("ssh -G %s did not end within %s: a command of Match exec may hang", name, configTimeout)
		} else if text := oneLine(said.String()); text != "" {
			err = fmt.Errorf("%w: %s", err, text)
		}
		return "", "", fail.Wrap(fail.Invalid, err, "look host %s up in the SSH client configuration", name).At(c.path).Do("ssh -F %s -G %s shows the same", c.path, name)
	}
	return out.String(), said.String(), nil
}

// parse reads what ssh prints: one keyword and its value a line.
func (c *ClientConfig) parse(name, text string) (Settings, error) {
	var s Settings
	var command string
	var keys, certs, global []string
	s.NoJump = true
	for line := range strings.Lines(text) {
		key, v, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case v == unset && key == "proxyjump":
			s.NoJump = false
		case v == unset:
		case key == "hostname" && !strings.EqualFold(v, name):
			s.HostName = v
		case key == "user":
			s.User = v
		case key == "port" && v != unsetPort:
			s.Port, _ = strconv.Atoi(v) // ssh has checked it
		case key == "identityfile" && !strings.EqualFold(v, "none"):
			keys = append(keys, v)
		case key == "certificatefile" && !strings.EqualFold(v, "none"):
			certs = append(certs, v)
		case key == "identityagent":
			s.Agent = v
		case key == "proxyjump":
			s.Jump, s.NoJump = strings.Split(v, ","), false
		case key == "proxycommand":
			command, s.NoJump = v, false
		case key == "hostkeyalias":
			s.Alias = v
		case key == "userknownhostsfile":
			s.KnownHosts = paths(v)
		case key == "globalknownhostsfile":
			global = paths(v)
		}
	}
	s.KnownHosts = append(s.KnownHosts, global...)
	if command != "" {
		return s, fail.New(fail.Invalid, "host %s has a ProxyCommand, which is not supported", name).At(c.path).Do("write it as ProxyJump, or list the jump hosts as bastions")
	}
	tokens := strings.NewReplacer("%%", "%", "%d", "~", "%h", orElse(s.HostName, name), "%n", name, "%r", s.User, "%u", localUser())
	path := func(v string) string { return expandHome(tokens.Replace(expandVariables(v))) }
	for _, f := range keys {
		switch f = firstFile(path(f), path(f)+".pub"); {
		case f == "" || f == s.KeyFile || slices.Contains(s.MoreKeys, f):
		case s.KeyFile == "":
			s.KeyFile = f
		default:
			s.MoreKeys = append(s.MoreKeys, f)
		}
	}
	for _, f := range certs {
		if f = firstFile(path(f)); f != "" {
			s.CertFiles = append(s.CertFiles, f)
		}
	}
	s.Agent = path(s.Agent)
	return s, nil
}

// firstFile returns the first of paths that exists; empty if none does.
func firstFile(paths ...string) string {
	for _, f := range paths {
		if _, err := os.Stat(f); err == nil {
			return f
		}
	}
	return ""
}

// variable is one of the environment, as ssh_config names it.
var variable = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)

// expandVariables replaces ${NAME} by the environment's value.
func expandVariables(v string) string {
	return variable.ReplaceAllStringFunc(v, func(name string) string { return os.Getenv(name[2 : len(name)-1]) })
}

// paths lists the files that a value names.
func paths(v string) (all []string) {
	for f := range strings.FieldsSeq(v) {
		if !strings.EqualFold(f, "none") {
			all = append(all, expandHome(f))
		}
	}
	return all
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

func localUser() string {
	u, err := user.Current()
	if err != nil {
		return ""
	}
	return u.Username
}

// DefaultKeyFiles lists the private keys in the user's ~/.ssh that ssh offers if no file is named.
func DefaultKeyFiles() (all []string) {
	for _, name := range []string{"id_ed25519", "id_ecdsa", "id_rsa"} {
		path := expandHome("~/.ssh/" + name)
		if _, err := os.Stat(path); err == nil {
			all = append(all, path)
		}
	}
	return all
}

// JumpHost takes [ssh://][USER@]HOST[:PORT] apart; 0 stands for no port.
func JumpHost(text string) (user, host string, port int, err error) {
	rest := strings.TrimSuffix(strings.TrimPrefix(text, "ssh://"), "/")
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		user, rest = rest[:i], rest[i+1:]
	}
	host = rest
	if i := strings.LastIndexByte(rest, ':'); i >= 0 && (strings.Count(rest, ":") == 1 || strings.Contains(rest[:i], "]")) {
		host = rest[:i]
		if port, err = strconv.Atoi(rest[i+1:]); err != nil || port < 1 || port > 65535 {
			return "", "", 0, fmt.Errorf("%q has no port after its colon", text)
		}
	}
	if host = strings.Trim(host, "[]"); host == "" {
		return "", "", 0, fmt.Errorf("%q names no host", text)
	}
	return user, host, port, nil
}

// expandHome replaces "~/" by the home directory.
func expandHome(path string) string {
	rest, ok := strings.CutPrefix(path, "~/")
	if !ok {
		return path
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return path // opening it says that it is not there
	}
	return filepath.Join(home, rest)
}
