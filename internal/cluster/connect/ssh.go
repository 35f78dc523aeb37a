package connect

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/naupegos/naupegos/internal/cluster/login"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/reach"
	"github.com/naupegos/naupegos/internal/remote"
)

// NewDialer makes the SSH connections.
func (c *Conn) NewDialer(ctx context.Context, ask func(question string) (string, error)) (*remote.Dialer, error) {
	o := remote.Options{AgentPath: c.Agent.Path, ConnectTimeout: c.Doc.Spec.Timeouts.Connect.Duration}
	if c.trustsFirstUse() {
		o.TrustOnFirstUse = c.Trust
	}
	keys, err := c.logins(ctx)
	if err != nil {
		return nil, err
	}
	if given := c.Doc.Spec.Provider.Hosts; given != nil {
		value, err := c.Credentials.SSHKey(ctx, c.Doc)
		if err != nil {
			return nil, err
		}
		l, err := login.New(login.Options{Hosts: given, Credential: value, Closed: c.Credentials.Closed, Ask: ask})
		if err != nil {
			return nil, err
		}
		o.Signers, o.SudoPassword = l.Signers, l.SudoPassword
	}
	return remote.NewDialer(keys, o), nil
}

// Host returns how to reach a machine by SSH: directly if it is a gateway or has an outside address, else through one of those, if there is one.
func (c *Conn) Host(ctx context.Context, name string) (remote.Host, error) {
	if err := c.LoadTarget(ctx); err != nil {
		return remote.Host{}, err
	}
	m, err := c.Prov.Machine(ctx, name)
	if err != nil {
		return remote.Host{}, err
	}
	h := reach.Host(m)
	if m.Role == provider.Gateway || m.Public != "" || len(h.Via) > 0 {
		return h, nil
	}
	h.Via = c.waysIn(ctx, name)
	if len(h.Via) == 0 && len(c.Gateways()) > 0 {
		return h, fail.New(fail.Unreachable, "no gateway is running, with a known SSH host key, to reach it through").At(name).
			Do("the gateways are %s", strings.Join(c.Gateways(), ", "))
	}
	return h, nil
}

// waysIn returns the running machines with known host keys through which another machine is reached: gateways, else machines with an outer address.
func (c *Conn) waysIn(ctx context.Context, to string) []remote.Host {
	var via []remote.Host
	gateways := len(c.Gateways()) > 0
	for _, s := range c.Known() {
		if s.Name == to || gateways != (s.Role == provider.Gateway) {
			continue
		}
		m, err := c.Prov.Machine(ctx, s.Name)
		if err != nil || !m.MayRun() || m.Address == "" || !gateways && m.Public == "" {
			continue // not a way in at the moment; another one may be
		}
		if len(m.HostKeys) == 0 && !c.trustsFirstUse() {
			continue // its host keys are not known yet
		}
		via = append(via, reach.Host(m))
	}
	return via
}

// logins returns the cluster's own keys, which log in to machines. Hosts given by address know the user's keys instead, which login.Logins finds.
func (c *Conn) logins(ctx context.Context) (keys []remote.Key, err error) {
	if c.PublicKeys, err = c.PKI.SSHPublicKeys(ctx); err != nil || c.Doc.Spec.Provider.Hosts != nil {
		return nil, err
	}
	private, err := c.PKI.SSHKeys(ctx)
	if err != nil {
		return nil, err
	}
	for _, data := range private {
		key, err := remote.ParseKey(data)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// UseKeys has everything that is rendered or called from now on use the generations of the present phase.
func (c *Conn) UseKeys(ctx context.Context) error {
	r, err := c.ToldRotation()
	if err != nil {
		return err
	}
	c.PKI.Use(c.Generations(r))
	was := c.Rotation
	if c.Rotation = r.String(); was == c.Rotation || c.Dialer == nil {
		return nil
	}
	c.UseAPI(nil)
	keys, err := c.logins(ctx)
	if err != nil {
		return err
	}
	c.Dialer.SetKeys(keys)
	if p, ok := c.Prov.(provider.Keyed); ok {
		p.SetKey(c.PublicKeys[0])
	}
	return nil
}

// trustsFirstUse reports whether the user accepts the host key that an unknown machine presents.
func (c *Conn) trustsFirstUse() bool {
	p := c.Doc.Spec.Provider
	return p.Hosts != nil && p.Hosts.TrustOnFirstUse || p.OpenStack != nil && p.OpenStack.TrustOnFirstUse
}

// trustTimeout bounds remembering a key.
const trustTimeout = 5 * time.Second

// Trust accepts the first key that a host presents, and only that key afterwards. A recreated machine of the same name is a new host if the
// provider can tell them apart.
func (c *Conn) Trust(h remote.Host, key remote.HostKey) error {
	line, subject := remote.AuthorizedLine(key), c.trusted(h.Name)
	if known := c.Facts.Of(memory.TrustedKey, subject); known != "" {
		if known != line {
			return fail.New(fail.Unauthorized, "the host key is not the one that was trusted at first use").At(h.Name).
				Do("if the host was installed again, put its key into the document as hostKey")
		}
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), trustTimeout)
	defer cancel()
	return c.Facts.SetOf(ctx, memory.TrustedKey, subject, line)
}

// trusted returns the subject of the fact for a machine's key that was trusted on first use: its ID if it has one, else its name.
func (c *Conn) trusted(name string) string {
	if m, err := c.Prov.Machine(context.Background(), name); err == nil && m.ID != "" {
		return m.ID
	}
	return name
}

// withTrusted adds the keys that were trusted on first use to hosts and their jump hosts, because ssh does not consult the facts.
func (c *Conn) withTrusted(hs []remote.Host) []remote.Host {
	out := make([]remote.Host, 0, len(hs))
	for _, h := range hs {
		if key := c.Facts.Of(memory.TrustedKey, c.trusted(h.Name)); len(h.HostKeys) == 0 && key != "" {
			h.HostKeys = []string{key}
		}
		h.Via = c.withTrusted(h.Via)
		out = append(out, h)
	}
	return out
}

// AuthorizedKeysPath is the file of the SSH keys that a machine accepts.
const AuthorizedKeysPath = "/root/.ssh/authorized_keys"

// LoginFiles returns the files by which our machines know each other, and the authorised keys. Hosts given by address keep their own files and
// also admit the document's keys.
func (c *Conn) LoginFiles(hosts string) []machine.File {
	keys := strings.Join(c.Doc.Spec.Access.SSHKeys, "\n") + "\n"
	switch {
	case c.Prov.Traits().Given && keys == "\n":
		return nil
	case c.Prov.Traits().Given: // sshd reads both; the other one is the user's
		return []machine.File{{Path: "/root/.ssh/authorized_keys2", Mode: 0o600, Content: []byte(keys)}}
	}
	return []machine.File{
		{Path: "/etc/hosts", Mode: 0o644, Content: []byte(hosts)},
		{Path: AuthorizedKeysPath, Mode: 0o600, Content: []byte(strings.Join(c.AuthorizedKeys(), "\n") + "\n")},
	}
}

// Shell connects a terminal with a machine's login shell, which interprets command, and returns the remote exit status.
func (c *Conn) Shell(ctx context.Context, name string, t remote.Terminal, command string) (int, error) {
	h, err := c.Host(ctx, name)
	if err != nil {
		return 0, err
	}
	return c.Dialer.Shell(ctx, h, t, command)
}

// Hosts lists how all machines are reached.
func (c *Conn) Hosts(ctx context.Context) ([]remote.Host, error) {
	if err := c.LoadTarget(ctx); err != nil {
		return nil, err
	}
	var hs []remote.Host
	for _, s := range c.Known() {
		h, err := c.Host(ctx, s.Name)
		if fail.KindOf(err) == fail.NotFound {
			continue // it is wanted but does not exist yet
		}
		if err != nil {
			return nil, err
		}
		hs = append(hs, h)
	}
	return c.withTrusted(hs), nil
}

// SSHConfig writes an ssh configuration for all machines, the key and the pinned host keys into dir (mode 0700, files 0600), and returns the
// machines' names. It returns fail.Refused if others can write to dir, because they could change the configuration.
func (c *Conn) SSHConfig(ctx context.Context, dir string) ([]string, error) {
	hs, err := c.Hosts(ctx)
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "directory %s", dir)
	}
	if err := PrivateDir(dir); err != nil {
		return nil, err
	}
	knownHosts := filepath.Join(dir, "known_hosts")
	files := map[string][]byte{knownHosts: remote.KnownHosts(hs)}
	keyFile := filepath.Join(dir, "id_ed25519")
	if given := c.Doc.Spec.Provider.Hosts; given != nil && given.Credential != "" {
		if files[keyFile], err = c.Credentials.SSHKey(ctx, c.Doc); err != nil {
			return nil, err
		}
	} else if given != nil { // the hosts admit the user's keys, which are not copied
		if hs, keyFile, err = login.Absolute(hs, given.SSHKeyFile); err != nil {
			return nil, err
		}
	} else if files[keyFile], err = c.PKI.SSHKey(ctx); err != nil {
		return nil, err
	}
	files[filepath.Join(dir, "config")] = remote.SSHConfig(hs, keyFile, knownHosts)
	for path, data := range files {
		err := WritePrivate(path, func(w io.Writer) error { _, err := w.Write(data); return err })
		if err != nil {
			return nil, err
		}
	}
	names := make([]string, 0, len(hs))
	for _, h := range hs {
		names = append(names, h.Name)
	}
	return names, nil
}

// WritePrivate writes a file that only its owner may read, whole or not at all. Its directory is made 0700 if absent.
func WritePrivate(path string, fill func(io.Writer) error) (err error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fail.Wrap(fail.Refused, err, "make directory %s", dir)
	}
	f, err := os.CreateTemp(dir, ".part-*") // 0600
	if err != nil {
		return fail.Wrap(fail.Refused, err, "write %s", path)
	}
	defer func() {
		if err != nil {
			_ = f.Close() // closed already, or the first error is more useful
			_ = os.Remove(f.Name())
		}
	}()
	if err := fill(f); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return fail.Wrap(fail.Refused, err, "write %s", path)
	}
	if err := f.Close(); err != nil {
		return fail.Wrap(fail.Refused, err, "write %s", path)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return fail.Wrap(fail.Refused, err, "write %s", path)
	}
	return nil
}

// PrivateDir makes a directory that only its owner can read. It refuses a directory that other users can change.
func PrivateDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fail.Wrap(fail.Refused, err, "make directory %s", dir)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fail.Wrap(fail.Refused, err, "look at %s", dir)
	}
	if info.Mode().Perm()&0o022 != 0 {
		return fail.New(fail.Refused, "others may write into %s (mode %04o), and keys are to lie there", dir, info.Mode().Perm()).
			Do("chmod go-w %s, or name a directory of your own", dir)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		return fail.New(fail.Refused, "%s belongs to another user, and keys are to lie there", dir).Do("name a directory of your own")
	}
	return nil
}
