package gitread

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

// Limits of the processes.
const (
	maxTime   = 3 * time.Minute // of one read
	maxFile   = 256 << 20       // bytes of a file that they write, such as a pack
	maxMemory = 1 << 30         // bytes of each process
	maxCPU    = 2 * time.Minute // of each process
	maxOutput = 24 << 20        // bytes
	maxSaid   = 16 << 10        // bytes of errors
	leftover  = time.Hour       // older directories are of processes that were killed
)

// Access holds the inputs of a read besides its source.
type Access struct {
	Secret    []byte       // of HTTPS: USER:PASSWORD or a token; of SSH: a private key. nil: none
	Addresses []netip.Addr // of the repository's host: no other one is connected to
	MaxFile   int64        // maximum size of a pack in bytes; 0: 256 MiB
	// Beside returns, given the file's content, the paths of further files and directories of the repository to read; nil: none.
	Beside func(content []byte) []string
	Dir    string // gets a directory for the time of the read
}

// programs are the programs of reads, with their packages in Debian.
var programs = map[string]string{"git": "git", "prlimit": "util-linux", "ssh": "openssh-client", "ssh-keygen": "openssh-client", "gpgv": "gpgv"}

// bench is the directory of one read, and the processes in it. Processes get no path of this host: they work in the directory.
type bench struct {
	s      *Source
	max    int64 // bytes of a file
	beside func([]byte) []string
	dir    string
	env    []string
}

// settings are git's for each read. No other file of the host's or of its users' configuration counts.
var settings = [][2]string{
	{"core.hooksPath", "/dev/null"}, {"core.bigFileThreshold", "8m"}, {"pack.threads", "2"}, {"gc.auto", "0"}, {"maintenance.auto", "false"},
	{"fetch.unpackLimit", "1"}, {"transfer.unpackLimit", "1"}, // one file, which the limit of its size bounds
	{"http.followRedirects", "false"}, // a redirect would lead past the policy
	{"http.lowSpeedLimit", "1000"}, {"http.lowSpeedTime", "30"}, {"advice.detachedHead", "false"}, {"credential.helper", ""},
}

// openBench makes the directory of a read.
func openBench(ctx context.Context, s *Source, a Access) (*bench, error) {
	u, err := s.parse()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(a.Dir, 0o700); err != nil {
		return nil, fail.Wrap(fail.Internal, err, "make a directory for repositories")
	}
	sweep(a.Dir)
	dir, err := os.MkdirTemp(a.Dir, "read-")
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "make a directory for a repository")
	}
	b := &bench{s: s, max: cmp.Or(a.MaxFile, maxFile), beside: a.Beside, dir: dir}
	config := append(settings[:len(settings):len(settings)], [2]string{"remote.origin.url", s.URL})
	port := u.Port()
	if u.Scheme == "ssh" {
		err = b.prepareSSH(ctx, u.Hostname(), cmp.Or(port, "22"), a)
	} else {
		if port == "" {
			port = "443"
		}
		if len(a.Addresses) > 0 && !strings.Contains(u.Host, "[") {
			config = append(config, [2]string{"http.curloptResolve", u.Hostname() + ":" + port + ":" + joined(a.Addresses)})
		}
		if s.CA != "" {
			config, err = append(config, [2]string{"http.sslCAInfo", "ca.pem"}), b.write("ca.pem", s.CA)
		}
		if err == nil && a.Secret != nil {
			config, err = append(config, [2]string{"credential.helper", "!cat credential #"}), b.write("credential", userAndPassword(a.Secret))
		}
	}
	if err != nil {
		return nil, errors.Join(err, b.close())
	}
	b.env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + dir, "LC_ALL=C", "TZ=UTC", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0",
		"GIT_ALLOW_PROTOCOL=https:ssh", "GIT_LITERAL_PATHSPECS=1", "GIT_CEILING_DIRECTORIES=" + filepath.Dir(dir), "GIT_SSH_COMMAND=ssh -F ssh_config", "GIT_SSH_VARIANT=ssh",
		"GIT_CONFIG_COUNT=" + strconv.Itoa(len(config))}
	for i, c := range config {
		b.env = append(b.env, "GIT_CONFIG_KEY_"+strconv.Itoa(i)+"="+c[0], "GIT_CONFIG_VALUE_"+strconv.Itoa(i)+"="+c[1])
	}
	return b, nil
}

// sweep removes directories that killed processes left.
func sweep(dir string) {
	all, _ := os.ReadDir(dir) // the next read tries again
	for _, e := range all {
		if info, err := e.Info(); err == nil && strings.HasPrefix(e.Name(), "read-") && time.Since(info.ModTime()) > leftover {
			_ = os.RemoveAll(filepath.Join(dir, e.Name()))
		}
	}
}

// joined returns addresses as curl reads them.
func joined(all []netip.Addr) string {
	var texts []string
	for _, ip := range all {
		text := ip.String()
		if ip.Is6() {
			text = "[" + text + "]"
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ",")
}

// userAndPassword returns a secret as git's credential helpers tell it. A token alone suits forges that ignore the user's name.
func userAndPassword(secret []byte) string {
	user, password, ok := strings.Cut(strings.TrimSpace(string(secret)), ":")
	if !ok {
		user, password = defaultUser, user
	}
	return "username=" + user + "\npassword=" + password + "\n"
}

// prepareSSH writes ssh's files. ssh connects to the resolved address, and checks the host's key under the name in the URL.
func (b *bench) prepareSSH(ctx context.Context, host, port string, a Access) error {
	alias := host
	lines := []string{"Host *", "BatchMode yes", "StrictHostKeyChecking yes", "CheckHostIP no", "UserKnownHostsFile known_hosts", "GlobalKnownHostsFile /dev/null", "IdentitiesOnly yes",
		"IdentityAgent none", "ConnectTimeout 20", "ServerAliveInterval 10", "ServerAliveCountMax 3", "ForwardAgent no", "ClearAllForwardings yes", "UpdateHostKeys no", "PermitLocalCommand no"}
	if port != "22" {
		alias = "[" + host + "]:" + port
	}
	lines = append(lines, "HostKeyAlias "+alias)
	if len(a.Addresses) > 0 {
		lines = append(lines, "HostName "+answering(ctx, a.Addresses, port).String())
	}
	if !strings.Contains(b.s.URL, "@") {
		lines = append(lines, "User "+defaultUser)
	}
	if a.Secret == nil {
		lines = append(lines, "IdentityFile none")
	} else {
		lines = append(lines, "IdentityFile key")
		key := strings.TrimSpace(strings.ReplaceAll(string(a.Secret), "\r\n", "\n")) + "\n" // ssh reads no key that was pasted otherwise
		if err := b.write("key", key); err != nil {
			return err
		}
	}
	if err := b.write("known_hosts", strings.TrimSpace(b.s.KnownHosts)+"\n"); err != nil {
		return err
	}
	return b.write("ssh_config", strings.Join(lines, "\n")+"\n")
}

// answering returns the first address that accepts connections, or the first one: ssh gets only one, and hosts may have some that this server can't reach.
func answering(ctx context.Context, all []netip.Addr, port string) netip.Addr {
	dialer := net.Dialer{Timeout: 3 * time.Second}
	for _, ip := range all[:min(len(all), 8)] {
		if len(all) == 1 {
			break
		}
		if c, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(ip.String(), port)); err == nil {
			_ = c.Close()
			return ip
		}
	}
	return all[0]
}

func (b *bench) write(name, text string) error {
	if err := os.WriteFile(filepath.Join(b.dir, name), []byte(text), 0o600); err != nil {
		return fail.Wrap(fail.Internal, err, "write a file for git")
	}
	return nil
}

func (b *bench) close() error {
	if err := os.RemoveAll(b.dir); err != nil {
		return fail.Wrap(fail.Internal, err, "remove the directory of a repository")
	}
	return nil
}

// ran is the outcome of a process.
type ran struct {
	out  []byte
	said string // on standard error
	code int    // exit status; -1: it was killed
}

// errTooMuch says that a process wrote more than it may.
var errTooMuch = errors.New("too much output")

// run runs a program with limits. The error says that the program did not run to its end; an exit status other than 0 is no error.
func (b *bench) run(ctx context.Context, in io.Reader, program string, args ...string) (*ran, error) {
	for _, p := range []string{"prlimit", program} {
		if _, err := exec.LookPath(p); err != nil {
			return nil, fail.Wrap(fail.Refused, err, "this server has no %s, which reading repositories needs", p).Do("apt install %s", programs[p])
		}
	}
	limits := []string{"--core=0", "--fsize=" + strconv.FormatInt(b.max, 10), "--data=" + strconv.Itoa(maxMemory), "--cpu=" + strconv.Itoa(int(maxCPU/time.Second)), program}
	cmd := exec.CommandContext(ctx, "prlimit", append(limits, args...)...)
	out, said := &bounded{max: maxOutput, over: errTooMuch}, &bounded{max: maxSaid}
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = b.dir, b.env, in, out, said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // git starts others, which end with it
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 2 * time.Second
	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // processes that it started
	}
	switch {
	case ctx.Err() != nil:
		return nil, fail.Wrap(fail.KindOf(ctx.Err()), ctx.Err(), "read the repository")
	case out.Len() > out.max:
		return nil, errTooMuch
	case cmd.ProcessState == nil:
		return nil, fail.Wrap(fail.Internal, err, "start %s", program)
	}
	return &ran{out.Bytes(), said.String(), cmd.ProcessState.ExitCode()}, nil
}

// bounded keeps the first max bytes written to it. It drops the rest, or fails with over.
type bounded struct {
	bytes.Buffer
	max  int
	over error
}

// Write implements io.Writer.
func (w *bounded) Write(p []byte) (int, error) {
	w.Buffer.Write(p[:min(len(p), w.max+1-w.Len())])
	if w.over != nil && w.Len() > w.max {
		return 0, w.over
	}
	return len(p), nil
}

// Resolve returns the addresses of a host.
func Resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{ip.Unmap()}, nil
	}
	all, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, fail.Wrap(fail.Unreachable, err, "look up the repository's host").Do("check the URL's host, and the server's DNS")
	}
	for i := range all {
		all[i] = all[i].Unmap()
	}
	return all, nil
}
