package cluster

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/remote"
)

// Shell connects a terminal with a machine and returns the remote exit status.
func (c *Cluster) Shell(ctx context.Context, name string, t remote.Terminal, argv ...string) (int, error) {
	h, err := c.Host(ctx, name)
	if err != nil {
		return 0, err
	}
	return c.dialer.Shell(ctx, h, t, argv...)
}

// hosts lists how all machines are reached.
func (c *Cluster) hosts(ctx context.Context) ([]remote.Host, error) {
	if err := c.loadTarget(ctx); err != nil {
		return nil, err
	}
	var hs []remote.Host
	for _, s := range c.known() {
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

// SSHConfig writes an ssh configuration for all machines, the key and the pinned host keys into dir (made 0700, files 0600),
// and returns the machines' names. fail.Refused where others may write into dir: they could have ssh do what they like.
func (c *Cluster) SSHConfig(ctx context.Context, dir string) ([]string, error) {
	hs, err := c.hosts(ctx)
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "directory %s", dir)
	}
	if err := privateDir(dir); err != nil {
		return nil, err
	}
	knownHosts := filepath.Join(dir, "known_hosts")
	files := map[string][]byte{knownHosts: remote.KnownHosts(hs)}
	keyFile := filepath.Join(dir, "id_ed25519")
	if given := c.doc.Spec.Provider.Hosts; given != nil { // they know the user's key, which stays where it is
		if keyFile, err = keyPath(given.SSHKeyFile); err != nil {
			return nil, err
		}
	} else if files[keyFile], err = c.pki.SSHKey(ctx); err != nil {
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

// privateDir makes a directory that only its owner may look into, or makes sure that one that exists is nobody else's to change.
func privateDir(dir string) error {
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
