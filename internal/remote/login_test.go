package remote

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// sudoHost starts a host with an agent, the user debian, and a script as sudo.
func sudoHost(t *testing.T, script string) *agentHost {
	t.Helper()
	a := newAgentHost(t)
	a.h.User = "debian"
	dir := t.TempDir()
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "sudo"), []byte("#!/bin/sh\n"+script), 0o755))
	old := a.Command
	a.Command = func(c string) string { return strings.Replace(old(c), "sudo ", dir+"/sudo ", 1) }
	return a
}

const (
	sudoLets = "shift 2\nexec \"$@\"\n"
	// sudoAsks acts as sudo -S: it prompts on standard error and reads a line, byte by byte, from standard input.
	sudoAsks = `[ "$1" = -n ] && { echo "sudo: a password is required" >&2; exit 1; }
printf %s "$3" >&2; read -r p
[ "$p" = geheim ] || { echo "Sorry, try again." >&2; printf %s "$3" >&2; read -r p || { echo "sudo: 1 incorrect password attempt" >&2; exit 1; }; }
shift 4; exec "$@"
`
)

// TestFirstContact tries messages of sudo, shells and distributions that replace a command's output: every error names cause and remedy, and has a kind
// that prevents an apply.
func TestFirstContact(t *testing.T) {
	for name, c := range map[string]struct {
		says string // the script that replaces sudo
		kind fail.Kind
		want string
	}{
		"password":           {"echo 'sudo: a password is required' >&2; exit 1", fail.Unauthorized, "sudo requires a password from user debian|set sudoPassword|NOPASSWD"},
		"sudo-rs":            {"echo 'sudo: interactive authentication is required' >&2; exit 1", fail.Unauthorized, "sudo requires a password from user debian"},
		"old sudo":           {"echo 'sudo: no tty present and no askpass program specified' >&2; exit 1", fail.Unauthorized, "requires a password from user debian"},
		"German":             {"echo 'sudo: Ein Passwort ist notwendig' >&2; exit 1", fail.Unauthorized, "sudo refuses user debian|Ein Passwort ist notwendig|NOPASSWD"},
		"Japanese":           {"echo 'sudo: パスワードが必要です' >&2; exit 1", fail.Unauthorized, "sudo refuses user debian|パスワードが必要です"},
		"terminal":           {"echo 'sudo: sorry, you must have a tty to run sudo' >&2; exit 1", fail.Unauthorized, "requiretty|Defaults:debian !requiretty"},
		"not a sudoer":       {"echo 'debian is not in the sudoers file.  This incident will be reported.' >&2; exit 1", fail.Unauthorized, "may not use sudo|debian ALL=(ALL) NOPASSWD: ALL"},
		"no sudoer, sudo-rs": {"echo \"sudo: I'm sorry debian. I'm afraid I can't do that\" >&2; exit 1", fail.Unauthorized, "may not use sudo|debian ALL=(ALL) NOPASSWD: ALL"},
		"not all commands":   {"echo 'Sorry, user debian is not allowed to execute /bin/sh as root on host.' >&2; exit 1", fail.Unauthorized, "may not use sudo"},
		"no sudo, env":       {"echo 'env: ‘sudo’: No such file or directory' >&2; exit 127", fail.Refused, "sudo is not installed|apt-get install sudo"},
		"no sudo, German":    {"echo 'env: „sudo“: Datei oder Verzeichnis nicht gefunden' >&2; exit 127", fail.Refused, "sudo is not installed|Datei oder Verzeichnis"},
		"no sudo, French":    {"echo 'env: « sudo »: Aucun fichier ou dossier de ce type' >&2; exit 127", fail.Refused, "sudo is not installed"},
		"no sudo, sh":        {"echo 'sh: 1: sudo: not found' >&2; exit 127", fail.Refused, "sudo is not installed"},
		"no setuid":          {"echo 'sudo: /usr/bin/sudo must be owned by uid 0 and have the setuid bit set' >&2; exit 1", fail.Refused, "sudo can't become root|nosuid"},
		"no new privileges":  {`echo 'sudo: The "no new privileges" flag is set, which prevents sudo from running as root.' >&2; exit 1`, fail.Refused, "can't become root"},
		"sudoers broken":     {"echo '/etc/sudoers:12:3: syntax error' >&2; exit 1", fail.Refused, "can't read its configuration|visudo -c"},
		"lecture":            {"yes 'We trust you have received the usual lecture.' | head -50 >&2; echo 'sudo: 1 incorrect password attempt' >&2; exit 1", fail.Unauthorized, "output: sudo: 1 incorrect password attempt (status 1)"},
		"lecture, German":    {"yes 'Wir gehen davon aus, dass der lokale Systemadministrator Sie belehrt hat.' | head -50 >&2; echo 'sudo: 1 Fehlversuch bei der Passwort-Eingabe' >&2; exit 1", fail.Unauthorized, "sudo refuses user debian|sudo: 1 Fehlversuch bei der Passwort-Eingabe"},
		"no PATH, csh":       {"echo 'env: Command not found.' >&2; exit 1", fail.Refused, "PATH of user debian lacks /usr/bin"},
		"nologin":            {"echo 'This account is currently not available.'; exit 1", fail.Unauthorized, "no login shell|This account is currently not available.|chsh"},
		"false":              {"exit 1", fail.Refused, "did not run the command|no output (status 1)"},
		"true":               {"exit 0", fail.Refused, "did not run the command|no output (status 0)"},
		"forced command":     {"echo 'Choose: 1) mail 2) news'; exit 0", fail.Refused, "did not run the command|Choose: 1) mail 2) news"},
		"sftp only":          {"echo 'This service allows sftp connections only.'; exit 1", fail.Unauthorized, "no login shell"},
		"git shell":          {"echo 'fatal: Interactive git shell is not enabled.' >&2; exit 128", fail.Unauthorized, "no login shell"},
		"restricted bash":    {"echo 'rbash: line 1: /usr/bin/env: restricted: cannot specify / in command names' >&2; exit 127", fail.Unauthorized, "no login shell"},
		"expired password":   {"echo 'WARNING: Your password has expired.'; echo 'Password change required but no TTY available.' >&2; exit 1", fail.Unauthorized, "password of user debian has expired|chage -M -1 debian"},
		"locked account":     {"echo 'sudo: account validation failure, is your account locked?' >&2; exit 1", fail.Unauthorized, "expired or is locked"},
		"cloud image":        {"echo 'Please login as the user \"ubuntu\" rather than the user \"root\".'; exit 142", fail.Unauthorized, "root may not log in|set the user ubuntu"},
		"cloud image, AWS":   {"echo 'Please login as the user \"ec2-user\" rather than the user \"root\".'; exit 142", fail.Unauthorized, "set the user ec2-user"},
		"full disk":          {"echo 'bash: cannot create temp file for here-document: No space left on device' >&2; exit 1", fail.Refused, "the disk is full"},
		"read-only":          {"echo 'sudo: unable to open /run/sudo: Read-only file system' >&2; exit 1", fail.Refused, "a file system is read-only"},
		"no processes":       {"echo 'bash: fork: retry: Resource temporarily unavailable' >&2; exit 254", fail.Refused, "no memory or no processes"},
		"booting":            {"echo 'System is booting up. Unprivileged users are not permitted to log in yet.' >&2; exit 254", fail.Unreachable, "starting up or shutting down"},
		"terminal sequences": {"printf '\\033[31mforbidden\\033[0m\\n\\a'; exit 3", fail.Refused, "output: [31mforbidden[0m (status 3)"},
		"much noise":         {"yes 'no entry' | head -c 100000; exit 4", fail.Refused, "no entry no entry"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := sudoHost(t, c.says+"\n")
			_, err := a.d.Facts(t.Context(), a.h)
			if fail.KindOf(err) != c.kind {
				t.Errorf("kind %v", fail.KindOf(err))
			}
			has(t, err, append(strings.Split(c.want, "|"), "m (127.0.0.1:")...)
			if err != nil && (len(err.Error()) > 600 || strings.ContainsAny(err.Error(), "\n\r\x1b\a")) {
				t.Errorf("not one line: %q", err)
			}
		})
	}
}

// TestNoisyLogins: a login works regardless of its output before the command, and of the language of sudo's messages.
func TestNoisyLogins(t *testing.T) {
	for name, c := range map[string]struct{ sudo, before string }{
		"nothing":         {sudoLets, ""},
		"English":         {sudoLets, "LANG=en_US.UTF-8; "},
		"German":          {sudoLets, "LANG=de_DE.UTF-8 LC_MESSAGES=de_DE.UTF-8; export LANG LC_MESSAGES; "},
		"welcome":         {sudoLets, "echo 'Welcome to prod!'; "},
		"no newline":      {sudoLets, "printf 'Welcome to prod! '; "},
		"warning":         {sudoLets, "echo 'bash: warning: setlocale: LC_ALL: cannot change locale (de_DE.UTF-8)' >&2; "},
		"much":            {sudoLets, "yes 'Welcome to prod!' | head -c 300000; yes 'And mind the gap' | head -c 300000 >&2; "},
		"JSON":            {sudoLets, `echo '{"hostname":"x"}'; `},
		"half of the cue": {sudoLets, "printf naupegos:be; printf naupegos:beg; "},
		"lecture":         {"echo 'We trust you have received the usual lecture' >&2\n" + sudoLets, ""},
		"resolver":        {"echo 'sudo: unable to resolve host m: Name or service not known' >&2\n" + sudoLets, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := sudoHost(t, c.sudo)
			old := a.Command
			a.Command = func(cmd string) string { return c.before + old(cmd) }
			f, err := a.d.Facts(t.Context(), a.h)
			if err != nil || f.Hostname != "m" {
				t.Errorf("facts %+v: %v", f, err)
			}
			if out, err := a.d.Run(t.Context(), a.h, strings.NewReader("in"), "cat"); string(out) != "in" || err != nil {
				t.Errorf("cat gave %q back: %v", out, err)
			}
		})
	}
}

// TestSudoPassword: sudo gets its password when it asks, and the command its own input, whether sudo asks or not.
func TestSudoPassword(t *testing.T) {
	for name, c := range map[string]struct {
		sudo     string
		password func(context.Context, Host) (string, error)
		want     string // in the error; empty: it works
	}{
		"asks":       {sudoAsks, givenPassword("geheim"), ""},
		"does not":   {"shift 4; exec \"$@\"\n", givenPassword("geheim"), ""},
		"wrong":      {sudoAsks, givenPassword("falsch"), "sudo did not accept the password of user debian"},
		"none known": {sudoAsks, givenPassword(""), "sudo did not accept the password|check sudoPassword"},
		"unreadable": {sudoAsks, func(context.Context, Host) (string, error) {
			return "", fail.New(fail.Invalid, "no such file").At("/secrets/sudo")
		}, "get the password for sudo|/secrets/sudo|no such file"},
		"unset": {sudoAsks, nil, "sudo requires a password from user debian"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := sudoHost(t, c.sudo)
			var commands []string
			old := a.Command
			a.Command = func(cmd string) string { commands = append(commands, cmd); return old(cmd) }
			a.d.o.SudoPassword, a.h.Sudo = c.password, "prompt"
			f, err := a.d.Facts(t.Context(), a.h)
			if c.want == "" && (err != nil || f.Hostname != "m") {
				t.Errorf("facts %+v: %v", f, err)
			}
			if c.want != "" {
				has(t, err, strings.Split(c.want, "|")...)
			}
			if _, again := a.d.Facts(t.Context(), a.h); c.want != "" && again.Error() != err.Error() {
				t.Errorf("the second time: %v", again)
			}
			if n := len(commands); name == "wrong" && n != 1 {
				t.Errorf("%d commands tried a wrong password", n)
			}
			for _, secret := range []string{"geheim", "falsch"} {
				if strings.Contains(strings.Join(commands, "\n"), secret) || err != nil && strings.Contains(err.Error(), secret) {
					t.Errorf("the password shows: %v, %v", commands, err)
				}
			}
		})
	}
}

// TestSlowTypist: the time for logins leaves out the time that the operator takes for the password.
func TestSlowTypist(t *testing.T) {
	a := sudoHost(t, sudoAsks)
	a.d.o.LoginTimeout = 2 * time.Second
	a.h.Sudo = "prompt"
	asked := 0
	a.d.o.SudoPassword = func(ctx context.Context, _ Host) (string, error) {
		if asked++; asked <= 2 { // the first login, and one on the same connection
			select {
			case <-time.After(3 * time.Second):
			case <-ctx.Done():
			}
		}
		return "geheim", nil
	}
	if f, err := a.d.Facts(t.Context(), a.h); err != nil || f.Hostname != "m" || asked < 2 {
		t.Errorf("facts %+v, asked %d times: %v", f, asked, err)
	}
}

func givenPassword(p string) func(context.Context, Host) (string, error) {
	return func(context.Context, Host) (string, error) { return p, nil }
}

// TestLoginThatHangs: an rc file that waits for input does not block the caller.
func TestLoginThatHangs(t *testing.T) {
	a := newAgentHost(t)
	a.d.o.LoginTimeout = 500 * time.Millisecond
	a.Command = func(string) string { return "echo 'Press Enter to go on'; sleep 600" }
	_, err := a.d.Facts(t.Context(), a.h)
	if fail.KindOf(err) != fail.Refused {
		t.Errorf("kind %v", fail.KindOf(err))
	}
	has(t, err, "did not run the command within 500ms", "Press Enter to go on")
}

// TestUploadDiagnosed: an upload that fails names the cause and the remedy.
func TestUploadDiagnosed(t *testing.T) {
	for name, c := range map[string]struct{ match, instead, want string }{
		"full":      {"' sh dd ", "dd: error writing: No space left on device|1", "the disk is full"},
		"read-only": {"' sh mkdir ", "mkdir: cannot create directory: Read-only file system|1", "a file system is read-only"},
		"noexec":    {" version ", "sh: 1: exec: /opt/x: Permission denied|126", "noexec"},
		"processor": {" version ", "sh: 1: exec: /opt/x: Exec format error|126", "another processor architecture"},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAgentHost(t)
			old := a.Command
			a.Command = func(cmd string) string {
				if !strings.Contains(cmd, c.match) {
					return old(cmd)
				}
				says, status, _ := strings.Cut(c.instead, "|")
				return "echo naupegos:began; cat >/dev/null; echo '" + says + "' >&2; exit " + status
			}
			_, err := a.d.Facts(t.Context(), a.h)
			if fail.KindOf(err) != fail.Refused {
				t.Errorf("kind %v", fail.KindOf(err))
			}
			has(t, err, "put the agent on the machine", c.want)
		})
	}
}
