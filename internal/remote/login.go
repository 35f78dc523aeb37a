package remote

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
)

// LoginError is the error of a successful login that did not run the command.
type LoginError struct {
	Status int
	Said   string // one line of the login's output
}

// Error quotes the login's output.
func (e *LoginError) Error() string {
	if e.Said == "" {
		return fmt.Sprintf("no output (status %d)", e.Status)
	}
	return fmt.Sprintf("output: %s (status %d)", e.Said, e.Status)
}

// symptom maps a machine's error message to a cause and a remedy.
type symptom struct {
	says   *regexp.Regexp
	kind   fail.Kind
	means  string
	advice string // USER is replaced by the user, MATCH by the first group of says
}

const allowSudo = `allow it in sudoers: "USER ALL=(ALL) NOPASSWD: ALL"`

// symptoms lists English messages of sshd, sudo, PAM, shells and file systems, most specific first. Errors quote other messages. Only env, which sets the
// language, speaks that of the machine: „sudo“: Datei oder Verzeichnis nicht gefunden.
var symptoms = sync.OnceValue(func() []symptom {
	return []symptom{
		{
			regexp.MustCompile(`(?i)please log ?in as the (?:user )?["'\x60]?([a-z_][-a-z0-9_.]*)`), fail.Unauthorized,
			"root may not log in", "set the user MATCH: spec.provider.hosts.user, or user of this machine",
		},
		{
			regexp.MustCompile(`(?i)password has expired|password change required|change your password immediately|password is expired`), fail.Unauthorized,
			"the password of user USER has expired", "set a new one there (passwd USER), or let it never expire (chage -M -1 USER)",
		},
		{
			regexp.MustCompile(`(?i)account has expired|account validation failure`), fail.Unauthorized,
			"the account of user USER has expired or is locked", "extend it there: chage -E -1 USER",
		},
		{
			regexp.MustCompile(`(?i)system is booting up|system is going down|going to be shut down`), fail.Unreachable,
			"the machine is starting up or shutting down and admits only root", "wait, or remove /run/nologin there",
		},
		{
			regexp.MustCompile(`(?i)incorrect password attempt|sorry, try again|incorrect authentication attempt|authentication failed, try again`), fail.Unauthorized,
			"sudo did not accept the password of user USER", "check sudoPassword",
		},
		{
			regexp.MustCompile(`(?i)password is required|interactive authentication is required|no password was provided|a terminal is required|askpass`), fail.Unauthorized,
			"sudo requires a password from user USER", "set sudoPassword, or " + allowSudo,
		},
		{
			regexp.MustCompile(`(?i)must have a tty`), fail.Unauthorized,
			"sudo requires a terminal (requiretty)", `add "Defaults:USER !requiretty" to sudoers there`,
		},
		{
			regexp.MustCompile(`(?i)not in the sudoers file|not allowed to (?:execute|run)|may not run sudo|I'm sorry \S+ I'm afraid`), fail.Unauthorized,
			"user USER may not use sudo", allowSudo + ", or log in as root",
		},
		{
			regexp.MustCompile(`(?i)(?:^|\n)env: \W{0,3}sudo\W{0,3}: |sudo['’]?: (?:command )?not found|sudo['’]?: no such file|unknown command:? '?sudo`), fail.Refused,
			"sudo is not installed, and user USER is not root", "install it there (apt-get install sudo), or log in as root",
		},
		{
			regexp.MustCompile(`(?i)env['’]?: (?:command )?not found|unknown command:? '?env`), fail.Refused,
			"the PATH of user USER lacks /usr/bin", "correct PATH in the user's shell settings there (~/.bashrc, ~/.ssh/environment)",
		},
		{
			regexp.MustCompile(`(?i)effective uid is not 0|must be owned by uid 0|must be setuid root|no new privileges`), fail.Refused,
			"sudo can't become root", "sudo's file lost its setuid bit, or its file system is mounted nosuid: reinstall sudo there, or log in as root",
		},
		{
			regexp.MustCompile(`(?i)sudoers.*(?:syntax error|parse error|no valid sudoers)|(?:syntax error|parse error).*sudoers`), fail.Refused,
			"sudo can't read its configuration", "correct it there: visudo -c names the line",
		},
		{
			regexp.MustCompile(`(?i)currently not available|nologin|sftp connections only|only sftp|git shell|restricted shell|: restricted|permission to shell`), fail.Unauthorized,
			"user USER has no login shell that runs commands", "give the user one there (chsh -s /bin/bash USER), or use another user",
		},
		{regexp.MustCompile(`(?i)read-only file system`), fail.Refused, "a file system is read-only", "mount it writable there: Naupegos writes below /etc, /var and " + machine.AgentDir},
		{
			regexp.MustCompile(`(?i)no space left|disk quota exceeded`), fail.Refused,
			"the disk is full", "free space (or inodes) on the file system that holds " + machine.AgentDir,
		},
		{
			regexp.MustCompile(`(?i)exec format error`), fail.Refused,
			"the agent was built for another processor architecture", "use a machine with this host's architecture",
		},
		{
			regexp.MustCompile(`(?i)cannot allocate memory|resource temporarily unavailable|cannot fork`), fail.Refused,
			"the machine has no memory or no processes left", "check the processes there",
		},
	}
})

// diagnose returns the symptom that matches a machine's output, or nil.
func diagnose(h Host, said string) *symptom {
	for _, s := range symptoms() {
		m := s.says.FindStringSubmatch(said)
		if m == nil {
			continue
		}
		with := []string{"USER", h.user()}
		if len(m) > 1 {
			with = append(with, "MATCH", m[1])
		}
		r := strings.NewReplacer(with...)
		s.means, s.advice = r.Replace(s.means), r.Replace(s.advice)
		return &s
	}
	return nil
}

// loginError returns the reason why a login ran no command.
func loginError(h Host, status int, stdout, stderr string) error {
	cause := &LoginError{status, oneLine(lastOf(stderr, headLimit) + "\n" + stdout)}
	if s := diagnose(h, stdout+"\n"+stderr); s != nil {
		for line := range strings.Lines(stdout + "\n" + stderr) {
			if s.says.MatchString(line) { // not the lecture before it
				cause.Said = oneLine(line)
			}
		}
		return fail.Wrap(s.kind, cause, "%s", s.means).At(h.where()).Do("%s", s.advice)
	}
	switch {
	case status < 0:
		return fail.Wrap(fail.Unreachable, cause, "the login ended before it ran the command").At(h.where())
	case h.user() != "root" && strings.Contains(stderr, "sudo"):
		return fail.Wrap(fail.Unauthorized, cause, "sudo refuses user %s", h.user()).At(h.where()).
			Do("set sudoPassword, or %s", strings.ReplaceAll(allowSudo, "USER", h.user()))
	}
	return fail.Wrap(fail.Refused, cause, "the login of user %s did not run the command", h.user()).At(h.where()).
		Do("the user needs a shell that runs commands, and profile and rc files that neither exit nor start another program: %s must print \"works\"", h.tryOut())
}

// tryOut returns the command that tests the login.
func (h Host) tryOut() string {
	words := []string{"ssh"}
	if h.Port != 0 && h.Port != 22 {
		words = append(words, "-p", strconv.Itoa(h.Port))
	}
	var jumps []string // the first is the nearest
	for v := h; len(v.Via) > 0; {
		v = v.Via[0]
		jumps = append([]string{v.user() + "@" + v.addr()}, jumps...)
	}
	if len(jumps) > 0 {
		words = append(words, "-J", strings.Join(jumps, ","))
	}
	return strings.Join(append(words, h.user()+"@"+h.Address, "echo works"), " ")
}

// lastOf returns the last n bytes of s.
func lastOf(s string, n int) string {
	s = strings.TrimSpace(s)
	if len(s) <= n {
		return s
	}
	return "…" + strings.ToValidUTF8(s[len(s)-n+len("…"):], "")
}

// uploadError returns the reason why the agent could not be installed.
func uploadError(h Host, err error) error {
	if k := fail.KindOf(err); k != fail.Internal {
		return err
	}
	e := fail.Wrap(fail.Refused, err, "put the agent on the machine").At(h.where())
	var exit *ExitError
	if !errors.As(err, &exit) {
		return e
	}
	if s := diagnose(h, exit.Stderr); s != nil {
		return e.Do("%s: %s", s.means, s.advice)
	}
	if exit.Status == 126 || strings.Contains(exit.Stderr, "ermission denied") {
		return e.Do("programs below %s can't be run: its file system may be mounted noexec, or a security module forbids it", machine.AgentDir)
	}
	return e
}
