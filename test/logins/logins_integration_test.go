//go:build integration

package logins_test

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/testkit"
)

// login is one way to log in to a host, right or wrong.
type login struct {
	name     string
	hosts    string // fields of spec.provider.hosts, separated by ;
	machines string // one machine per line; empty: the host at 10.4.0.11
	env      string
	before   string // runs on the host before the plan
	after    string // runs on the host after the plan
	works    bool
	noBundle bool
}

// as returns the field for a user.
func as(user string) string { return "user: " + user }

const (
	secret      = "sudoPassword: {env: SUDO_PASSWORD}"
	right       = "SUDO_PASSWORD=geheim"
	wrong       = "SUDO_PASSWORD=falsch"
	agents      = "/usr/local/lib/naupegos"
	withoutSudo = "mount -t tmpfs tmpfs /mnt; mkdir /mnt/u /mnt/w; mknod /mnt/u/sudo c 0 0; mount -t overlay overlay -o lowerdir=/usr/bin,upperdir=/mnt/u,workdir=/mnt/w /usr/bin"
	withSudo    = "umount -l /usr/bin; umount -l /mnt"
	through     = "- {address: 10.3.0.11, role: control-plane, hostKey: HOST}"
)

// bastions returns the field for these bastions: each is an address, followed by further fields.
func bastions(user string, all ...string) string {
	for i, b := range all {
		key := "BASTION"
		if strings.Contains(b, "hostKey") {
			key = ""
		} else {
			key = ", hostKey: " + key
		}
		all[i] = "{address: " + b + key + "}"
	}
	return as(user) + ";bastions: [" + strings.Join(all, ", ") + "]"
}

func all() []login {
	return []login{
		{name: "plain", hosts: as("plain"), works: true},
		{name: "root", hosts: as("root"), works: true},
		{name: "banner", hosts: as("banner"), works: true},
		{name: "banner-denied", hosts: as("denied")},
		{name: "no-such-user", hosts: as("nobody-here")},

		{name: "sudo-asks", hosts: as("asks")},
		{name: "sudo-asks-and-knows", hosts: as("asks") + ";" + secret, env: right, works: true},
		{name: "sudo-asks-wrong", hosts: as("asks") + ";" + secret, env: wrong},
		{name: "sudo-asks-env-unset", hosts: as("asks") + ";" + secret},
		{name: "sudo-does-not-ask", hosts: as("plain") + ";" + secret, env: wrong, works: true},
		{name: "sudo-unlisted", hosts: as("unlisted")},
		{name: "sudo-unlisted-password", hosts: as("unlisted") + ";" + secret, env: right},
		{name: "sudo-some", hosts: as("some")},
		{name: "sudo-tty", hosts: as("no-tty")},
		{name: "sudo-old-password", hosts: as("old-password") + ";" + secret, env: right},
		{name: "german", hosts: as("german"), works: true},
		{name: "german-asks", hosts: as("german-asks")},
		{name: "german-asks-and-knows", hosts: as("german-asks") + ";" + secret, env: right, works: true},
		{name: "german-asks-wrong", hosts: as("german-asks") + ";" + secret, env: wrong},
		{name: "german-unlisted", hosts: as("german-unlisted") + ";" + secret, env: right},
		{name: "german-tty", hosts: as("german-tty")},
		{name: "german-nologin", hosts: as("german-nologin")},
		{name: "german-expired", hosts: as("german-expired")},

		{name: "nologin", hosts: as("nologin")},
		{name: "shell-false", hosts: as("shell-false")},
		{name: "shell-gone", hosts: as("shell-gone")},
		{name: "dash", hosts: as("dash"), works: true},
		{name: "fish", hosts: as("fish"), works: true},
		{name: "tcsh", hosts: as("tcsh"), works: true},
		{name: "restricted", hosts: as("restricted"), works: true},
		{name: "forced", hosts: as("forced")},
		{name: "sftp", hosts: as("sftp")},
		{name: "cloud-image-root", hosts: as("root"), before: "cp /etc/ssh/keys/root /etc/ssh/keys/root-full; cp /etc/ssh/keys/root-image /etc/ssh/keys/root", after: "mv /etc/ssh/keys/root-full /etc/ssh/keys/root"},
		{name: "rc-prints", hosts: as("rc-prints"), works: true},
		{name: "rc-exits", hosts: as("rc-exits")},
		{name: "rc-waits", hosts: as("rc-waits"), works: true},
		{name: "rc-fish", hosts: as("rc-fish")},
		{name: "rc-broken", hosts: as("rc-broken"), works: true},
		{name: "ssh-rc", hosts: as("ssh-rc"), works: true},
		{name: "path-gone", hosts: as("path-gone")},
		{name: "home-gone", hosts: as("home-gone"), works: true},
		{name: "expired", hosts: as("expired")},
		{name: "expired-account", hosts: as("expired-account")},
		{name: "booting", hosts: as("plain"), before: "echo 'System is going down.' >/run/nologin", after: "rm /run/nologin"},

		{name: "sudo-prompts", hosts: as("prompts") + ";" + secret, env: right, works: true},
		{name: "sudo-pty", hosts: as("pty"), works: true},
		{name: "sudo-pty-password", hosts: as("pty-asks") + ";" + secret, env: right, works: true},
		{name: "sudo-log-input", hosts: as("logs"), works: true},
		{name: "sudo-broken", hosts: as("plain"), before: "echo 'plain ALL = (' >/etc/sudoers.d/broken; chmod 440 /etc/sudoers.d/broken", after: "rm /etc/sudoers.d/broken", works: true},
		{name: "sudo-not-setuid", hosts: as("plain"), before: "mount -t tmpfs -o nosuid tmpfs /mnt; cp /usr/bin/sudo /mnt; chmod 4755 /mnt/sudo; mount --bind /mnt/sudo /usr/bin/sudo",
			after: "umount /usr/bin/sudo; umount /mnt"},
		{name: "sudo-gone", hosts: as("plain"), before: withoutSudo, after: withSudo},
		{name: "german-sudo-gone", hosts: as("german"), before: withoutSudo, after: withSudo},
		{name: "one-session", hosts: as("one-session"), works: true},
		{name: "umask", hosts: as("umask"), works: true},
		{name: "tmp-noexec", hosts: as("plain"), before: "mount -t tmpfs -o noexec,nosuid tmpfs /tmp", after: "umount /tmp", works: true},
		{name: "tmp-full", hosts: as("plain"), before: "mount -t tmpfs -o size=4k tmpfs /tmp; echo x >/tmp/x", after: "umount /tmp", works: true},
		{name: "agent-noexec", hosts: as("plain"), before: "mount -t tmpfs -o noexec tmpfs " + agents, after: "umount " + agents},
		{name: "agent-full", hosts: as("plain"), before: "mount -t tmpfs -o size=64k tmpfs " + agents, after: "umount " + agents},
		{name: "agent-full-no-bundle", hosts: as("plain"), before: "mount -t tmpfs -o size=64k tmpfs " + agents, after: "umount " + agents, noBundle: true},
		{name: "agent-read-only", hosts: as("plain"), before: "mount -t tmpfs -o ro tmpfs " + agents, after: "umount " + agents},

		{name: "host-key-changed", hosts: as("plain"), machines: "- {address: 10.4.0.11, role: control-plane, hostKey: BASTION}"},
		{name: "bastions", hosts: bastions("plain", "10.1.0.2, user: jump", "10.2.0.2, user: jump"), machines: through, works: true},
		{name: "bastions-nologin", hosts: bastions("plain", "10.1.0.2, user: jump-nologin", "10.2.0.2, user: jump"), machines: through, works: true},
		{name: "bastions-sudo", hosts: bastions("asks", "10.1.0.2, user: jump", "10.2.0.2, user: jump") + ";" + secret, env: right, machines: through, works: true},
		{name: "bastions-sudo-asks", hosts: bastions("german-asks", "10.1.0.2, user: jump", "10.2.0.2, user: jump"), machines: through},
		{name: "bastions-ssh-config", hosts: as("plain") + ";sshConfig: ssh_config", machines: "- {address: 10.3.0.11, role: control-plane}", works: true},
		{name: "bastion-one-forbids", hosts: bastions("plain", "10.1.0.2, user: no-forwarding", "10.2.0.2, user: jump"), machines: through},
		{name: "bastion-two-forbids", hosts: bastions("plain", "10.1.0.2, user: jump", "10.2.0.2, user: no-forwarding"), machines: through},
		{name: "bastion-unknown-user", hosts: bastions("plain", "10.1.0.2, user: nobody-here", "10.2.0.2, user: jump"), machines: through},
		{name: "bastion-expired", hosts: bastions("plain", "10.1.0.2, user: jump", "10.2.0.2, user: expired-account"), machines: through},
		{name: "bastion-key-changed", hosts: bastions("plain", "10.1.0.2, user: jump", "10.2.0.2, user: jump, hostKey: HOST"), machines: through},
		{name: "bastion-restricted-key", hosts: bastions("plain", "10.1.0.2, user: restricted-key", "10.2.0.2, user: jump"), machines: through},
		{name: "bastion-expired-password", hosts: bastions("plain", "10.1.0.2, user: jump", "10.2.0.2, user: old-jump"), machines: through},
		{name: "bastion-forced", hosts: bastions("plain", "10.1.0.2, user: forced", "10.2.0.2, user: jump"), machines: through, works: true},
		{name: "bastion-missing", hosts: bastions("plain", "10.1.0.2, user: jump"), machines: through},
		{name: "bastion-silent", hosts: bastions("plain", "10.1.0.99, user: jump", "10.2.0.2, user: jump"), machines: through},

		{name: "address-elsewhere", hosts: as("plain"), machines: "- {address: 192.0.2.11, sshAddress: 10.4.0.11, role: control-plane, hostKey: HOST}"},
		{name: "same-host", hosts: as("plain"), machines: "- {address: 10.4.0.11, role: control-plane, hostKey: HOST}\n- {address: 10.4.0.12, role: worker, hostKey: HOST}"},
	}
}

// TestLogins compares the plan for each login with its golden file; make test does so for 20 of them. A wrong login gives one warning that names
// cause and remedy, and apply changes nothing.
func TestLogins(t *testing.T) {
	s := newSite(t)
	s.write(t, "known_hosts", "10.3.0.11 "+s.host+"\n10.1.0.2,10.2.0.2 "+s.bastion+"\n")
	s.write(t, "ssh_config", "Host 10.3.0.11\n  ProxyJump jump@10.1.0.2,jump@10.2.0.2\n  UserKnownHostsFile "+s.dir+"/known_hosts\nHost 10.1.0.2 10.2.0.2\n  UserKnownHostsFile "+s.dir+"/known_hosts\n")
	for _, l := range testkit.Sample(t, 20, all()) {
		t.Run(l.name, func(t *testing.T) {
			s.write(t, "harbour.yaml", s.document(l))
			if l.before != "" {
				s.onHost(t, l.before)
				defer s.onHost(t, l.after)
			}
			text, status := s.naupegos(t, l, "plan", "-f", "harbour.yaml")
			said := text
			if l.name != "plain" {
				said = aboutMachines(text)
			}
			testkit.Golden(t, "golden/"+l.name+".txt", said)
			if strings.Contains(text, "geheim") || strings.Contains(text, "falsch") {
				t.Errorf("the password shows:\n%s", text)
			}
			if l.works {
				if status != 2 || strings.Contains(text, "Warning") || strings.Contains(text, "could not be examined") {
					t.Errorf("status %d:\n%s", status, text)
				}
				return
			}
			if status == 2 && !strings.Contains(text, "\nWarning: apply does not begin before this is fixed: ") {
				t.Fatalf("plan reports no fault:\n%s", text)
			}
			said, status = s.naupegos(t, l, "apply", "-f", "harbour.yaml", "--yes")
			if status == 0 || !regexp.MustCompile(`nothing was begun|nothing was changed|does not have|one machine ID`).MatchString(said) {
				t.Errorf("apply ends with status %d:\n%s", status, said)
			}
		})
	}
}

// aboutMachines removes the plan's part about the cluster, which is the same for all logins and changes with Naupegos.
func aboutMachines(text string) string {
	if _, rest, found := strings.Cut(text, "\n\n"); found && strings.HasPrefix(text, "cluster\n") {
		text = rest
	}
	return regexp.MustCompile(`(?m)^Plan: .*\n`).ReplaceAllString(text, "")
}

const runLimit = 3 * time.Minute // of a command: one login waits until its timeout

// naupegos runs a command with its own store.
func (s *site) naupegos(t *testing.T, l login, args ...string) (string, int) {
	t.Helper()
	env := []string{"XDG_STATE_HOME=" + t.TempDir()}
	if l.noBundle {
		env = append(env, "XDG_CACHE_HOME="+t.TempDir())
	}
	if l.env != "" {
		env = append(env, l.env)
	}
	out, err := s.inside(t, runLimit, env, append([]string{filepath.Join(s.dir, "naupegos")}, args...)...)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%v: %s", err, out)
	}
	status := 0
	if exit != nil {
		status = exit.ExitCode()
	}
	return fmt.Sprintf("%sexit status %d\n", s.normal(out), status), status
}

// normal replaces text that differs between runs.
func (s *site) normal(text string) string {
	for pattern, with := range map[string]string{
		`SHA256:[A-Za-z0-9+/]{43}`:           "SHA256:…",
		regexp.QuoteMeta(s.dir):              "~",
		`naupegos/agent/[0-9a-f]{64}`:        "naupegos/agent/DIGEST",
		`\.upload-[A-Z2-7]+`:                 ".upload-RANDOM",
		`Kubernetes v[0-9]+\.[0-9]+\.[0-9]+`: "Kubernetes RELEASE",
	} {
		text = regexp.MustCompile(pattern).ReplaceAllString(text, with)
	}
	return text
}

// document returns a document for a login.
func (s *site) document(l login) string {
	var b strings.Builder
	b.WriteString("apiVersion: naupegos.dev/v1alpha1\nkind: Cluster\nmetadata: {name: harbour}\nspec:\n  endpoint: {kind: direct}\n  controlPlane: {schedulable: true}\n  provider:\n    hosts:\n      sshKeyFile: id\n")
	for _, field := range strings.Split(l.hosts, ";") {
		fmt.Fprintf(&b, "      %s\n", field)
	}
	machines := l.machines
	if machines == "" {
		machines = "- {address: 10.4.0.11, role: control-plane, hostKey: HOST}"
	}
	b.WriteString("      machines:\n")
	for _, m := range strings.Split(machines, "\n") {
		fmt.Fprintf(&b, "        %s\n", m)
	}
	return strings.NewReplacer("BASTION", s.bastion, "HOST", s.host).Replace(b.String())
}
