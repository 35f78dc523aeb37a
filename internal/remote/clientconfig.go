package remote

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
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
	seen map[question]string // what ssh printed
}

// As is the document's login to a host; the configuration decides about empty fields.
type As struct {
	User string // as ssh's -l
	Port int    // as ssh's -p

	OtherUser string // if the configuration has none
	OtherPort int    // if the configuration has none; 0: 22
}

// question is a query to ssh.
type question struct {
	name string
	As
	whole bool // with the defaults of OtherUser and OtherPort
}

// Settings are a host's settings of a client configuration. Empty fields are unset.
type Settings struct {
	HostName   string
	Port       int
	User       string
	KeyFile    string   // the first that exists; a public key selects the agent's private one
	MoreKeys   []string // existing files of further keys, which are offered after Key
	Missing    []string // key files that the configuration names and that do not exist
	CertFiles  []string // existing certificates of the keys
	Agent      string   // IdentityAgent: a socket, SSH_AUTH_SOCK, or none
	Jump       []string // [USER@]HOST[:PORT] of each jump host, nearest first
	NoJump     bool     // ProxyJump none
	KnownHosts []string // files
	Alias      string   // name in known_hosts: HostKeyAlias
}

// equal reports whether the configuration has the same settings for two names.
func (s Settings) equal(o Settings) bool {
	s.Missing, o.Missing = nil, nil
	return fmt.Sprint(s) == fmt.Sprint(o)
}

const (
	// unset is the value of settings that the configuration leaves open: ssh prints defaults like set values.
	unset = "naupegos-unset"
	// unsetPort is the same for ports. Port 1 is tcpmux's.
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
	return &ClientConfig{path: abs, seen: map[question]string{}}, nil
}

// Lookup returns a host's settings: those of the first name for which the configuration has any of its own, else those of the last name.
func (c *ClientConfig) Lookup(as As, names ...string) (Settings, error) {
	nobody, err := c.settings("naupegos-nobody", as)
	if err != nil {
		return Settings{}, err
	}
	var s Settings
	for _, name := range names {
		if name == "" {
			continue
		}
		if s, err = c.settings(name, as); err != nil {
			return Settings{}, err
		}
		if !s.equal(nobody) {
			break
		}
	}
	return s, nil
}

// settings queries ssh twice: for the user and port that the configuration itself sets, and for its other settings with the resulting user and port.
func (c *ClientConfig) settings(name string, as As) (Settings, error) {
	text, err := c.ask(question{name: name, As: As{User: as.User, Port: as.Port}})
	if err != nil {
		return Settings{}, err
	}
	set := values(text)
	own := Settings{User: set.one("user")}
	own.Port, _ = strconv.Atoi(set.one("port")) // ssh has checked it
	as.OtherPort = cmp.Or(as.OtherPort, 22)
	if own.User != "" {
		as.OtherUser = ""
	}
	if text, err = c.ask(question{name: name, As: as, whole: true}); err != nil {
		return Settings{}, err
	}
	s, err := c.parse(name, values(text))
	if s.Port == as.OtherPort {
		s.Port = own.Port
	}
	s.User = own.User
	return s, err
}

// ask runs ssh -G. Its configuration includes the user's, and ends with the placeholders for unset values. If the user's configuration has Match
// final, or canonical names, ssh reads it twice, and the end applies only to the second reading, because ssh uses the first value.
func (c *ClientConfig) ask(q question) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if text, ok := c.seen[q]; ok {
		return text, nil
	}
	out, said, err := c.run(q, "all", "-v")
	switch {
	case err != nil:
		out, _, err = c.run(q, "all") // its message without those of -v
	case strings.Contains(said, "re-parsing configuration"):
		out, _, err = c.run(q, "final all")
	}
	if err == nil {
		c.seen[q] = out
	}
	return out, err
}

// run runs ssh -G once, with a wrapper around the user's configuration whose last values are in a Match block. It is a file: ssh can't read a pipe
// twice.
func (c *ClientConfig) run(q question, match string, flags ...string) (stdout, stderr string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), configTimeout)
	defer cancel()
	f, err := os.CreateTemp("", "naupegos-ssh-")
	if err != nil {
		return "", "", fail.Wrap(fail.Refused, err, "write a file for ssh").Do("make room in the directory for temporary files")
	}
	defer func() { _ = os.Remove(f.Name()) }()
	user, port := unset, unsetPort
	if q.whole {
		user, port = cmp.Or(localUser(), unset), strconv.Itoa(q.OtherPort)
	}
	_, err = fmt.Fprintf(f, "Include \"%s\"\nMatch %s\nUser %s\nPort %s\nIdentityFile %s\nProxyJump %s\n", c.path, match, user, port, unset, unset)
	if err = errors.Join(err, f.Close()); err != nil {
		return "", "", fail.Wrap(fail.Refused, err, "write a file for ssh").At(f.Name()).Do("make room there")
	}
	if login := cmp.Or(q.User, q.OtherUser); login != "" {
		flags = append(flags, "-l", login)
	}
	if q.Port != 0 {
		flags = append(flags, "-p", strconv.Itoa(q.Port))
	}
	cmd := exec.CommandContext(ctx, "ssh", append(flags, "-T", "-G", "-F", f.Name(), "--", q.name)...)
	cmd.WaitDelay = time.Second
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("ssh -G %s did not end within %s: a command of Match exec may hang", q.name, configTimeout)
		} else if text := oneLine(said.String()); text != "" {
			err = fmt.Errorf("%w: %s", err, text)
		}
		return "", "", fail.Wrap(fail.Invalid, err, "look host %s up in the SSH client configuration", q.name).At(c.path).Do("ssh -F %s -G %s shows the same", c.path, q.name)
	}
	return out.String(), said.String(), nil
}

// expand replaces the tokens and variables of a path or of jump hosts as ssh does. ssh -G expands ControlPath, but no IdentityFile and no ProxyJump.
func (c *ClientConfig) expand(name string, s Settings, v string) (string, error) {
	if v = expandHome(v); !strings.ContainsAny(v, "%$") {
		return v, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), configTimeout)
	defer cancel()
	args := []string{"-T", "-G", "-F", "none", "-p", strconv.Itoa(s.Port), "-o", "ControlPath=" + quoted(v)}
	for option, value := range map[string]string{"User": s.User, "HostName": s.HostName, "HostKeyAlias": s.Alias, "ProxyJump": strings.Join(s.Jump, ",")} {
		if value != "" {
			args = append(args, "-o", option+"="+quoted(value))
		}
	}
	cmd := exec.CommandContext(ctx, "ssh", append(args, "--", name)...)
	cmd.WaitDelay = time.Second
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return "", fail.Wrap(fail.Invalid, fmt.Errorf("%w: %s", err, oneLine(said.String())), "expand %s of host %s", v, name).At(c.path).Do("ssh -F %s -G %s shows the configuration", c.path, name)
	}
	return values(string(out)).one("controlpath"), nil
}

// quoted quotes a value of a configuration.
func quoted(v string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(v) + `"`
}

// printed is the output of ssh -G, by keyword.
type printed map[string][]string

func values(text string) printed {
	all := printed{}
	for line := range strings.Lines(text) {
		key, v, _ := strings.Cut(strings.TrimRight(line, "\r\n"), " ")
		all[key] = append(all[key], v)
	}
	return all
}

// one returns the value of a keyword; "" if the configuration leaves it open.
func (p printed) one(key string) string {
	if all := p[key]; len(all) > 0 && all[0] != unset && (key != "port" || all[0] != unsetPort) {
		return all[0]
	}
	return ""
}

// parse parses the output of ssh.
func (c *ClientConfig) parse(name string, set printed) (s Settings, err error) {
	if v := set.one("hostname"); !strings.EqualFold(v, name) {
		s.HostName = v
	}
	s.User, s.Agent, s.Alias = set.one("user"), set.one("identityagent"), set.one("hostkeyalias")
	s.Port, _ = strconv.Atoi(set.one("port")) // ssh has checked it
	jump := set["proxyjump"]
	if v := set.one("proxyjump"); v != "" {
		if v, err = c.expand(name, s, v); err != nil {
			return s, err
		}
		s.Jump = strings.Split(v, ",")
	}
	s.NoJump = len(jump) == 0 && len(set["proxycommand"]) == 0
	s.KnownHosts = append(paths(set.one("userknownhostsfile")), paths(set.one("globalknownhostsfile"))...)
	if set.one("proxycommand") != "" {
		return s, fail.New(fail.Invalid, "host %s has a ProxyCommand, which is not supported", name).At(c.path).Do("write it as ProxyJump, or list the jump hosts as bastions")
	}
	for _, v := range set["identityfile"] {
		if v == unset || strings.EqualFold(v, "none") {
			continue
		}
		path, err := c.expand(name, s, v)
		if err != nil {
			return s, err
		}
		switch f := firstFile(path, path+".pub"); {
		case f == "":
			s.Missing = append(s.Missing, path)
		case f == s.KeyFile || slices.Contains(s.MoreKeys, f):
		case s.KeyFile == "":
			s.KeyFile = f
		default:
			s.MoreKeys = append(s.MoreKeys, f)
		}
	}
	for _, v := range set["certificatefile"] {
		if v == unset || strings.EqualFold(v, "none") {
			continue
		}
		path, err := c.expand(name, s, v)
		if err != nil {
			return s, err
		}
		if firstFile(path) != "" {
			s.CertFiles = append(s.CertFiles, path)
		}
	}
	if strings.HasPrefix(s.Agent, "$") && !strings.HasPrefix(s.Agent, "${") { // a variable with the socket's path, which the caller resolves
		return s, nil
	}
	s.Agent, err = c.expand(name, s, s.Agent)
	return s, err
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

// paths lists the files in a value of ssh -G. ssh separates them by blanks, without quotes around paths with blanks: the longest existing path
// counts.
func paths(v string) (all []string) {
	for parts := strings.Split(v, " "); len(parts) > 0; {
		n := len(parts)
		for n > 1 && firstFile(expandHome(strings.Join(parts[:n], " "))) == "" {
			n--
		}
		if f := strings.Join(parts[:n], " "); f != "" && !strings.EqualFold(f, "none") {
			all = append(all, expandHome(f))
		}
		parts = parts[n:]
	}
	return all
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

// shellCharacters are in no name that ssh accepts for a jump host or its user.
const shellCharacters = " \t\"'`$;&<>|(){}"

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
	if host = strings.Trim(host, "[]"); host == "" || strings.ContainsAny(user+host, shellCharacters) || strings.Contains(host, `\`) {
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
		return path // opening it reports that it does not exist
	}
	return filepath.Join(home, rest)
}
