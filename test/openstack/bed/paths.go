package bed

import (
	"os"
	"os/user"
	"path/filepath"
	"strconv"

	"github.com/naupegos/naupegos/internal/fail"
)

// The state directory: var is persistent, everything else is recreated at each start.
func (b *Bed) etc() string     { return filepath.Join(b.o.Root, "etc") }
func (b *Bed) run() string     { return filepath.Join(b.o.Root, "run") }
func (b *Bed) state() string   { return filepath.Join(b.o.Root, "var") }
func (b *Bed) plugins() string { return filepath.Join(b.o.Root, "plugins") }

// Root is the state directory.
func (b *Bed) Root() string { return b.o.Root }

// Address is the address of all API services.
func (b *Bed) Address() string { return b.o.Address }

// LogDir holds one log file for each service.
func (b *Bed) LogDir() string { return filepath.Join(b.o.Root, "log") }

// ConsoleDir is where Nova reads the console log of a server: <server UUID>.log.
func (b *Bed) ConsoleDir() string { return filepath.Join(b.o.Root, "console") }

// CloudsYAML is the file with the clouds Cloud, AdminCloud and TLSCloud, readable for root alone.
func (b *Bed) CloudsYAML() string { return filepath.Join(b.o.Root, "clouds.yaml") }

// CACertFile is the path of the authority that signed the certificate of TLSCloud's services.
func (b *Bed) CACertFile() string { return filepath.Join(b.tlsDir(), "ca.pem") }

func (b *Bed) tlsDir() string { return filepath.Join(b.state(), "tls") }

// MetadataURL is the address of Nova's metadata service, which answers requests that a metadata proxy has signed.
func (b *Bed) MetadataURL() string { return "http://" + b.o.Address + ":8775" }

// MetadataSecretFile is the path of the secret with which metadata proxies sign (HMAC-SHA256 of the server's UUID). Only root can read it.
func (b *Bed) MetadataSecretFile() string { return filepath.Join(b.o.Root, "metadata-secret") }

// makeDirs creates the state directory. Services of other users can traverse it but not list it.
func (b *Bed) makeDirs() error {
	for _, d := range []struct {
		path, owner string
		mode        os.FileMode
	}{
		{b.o.Root, "root", 0o711}, {b.state(), "root", 0o711}, {b.etc(), "root", 0o711}, {b.run(), "root", 0o700},
		{b.LogDir(), "root", 0o700}, {b.ConsoleDir(), "root", 0o700},
		{filepath.Join(b.state(), "mysql"), "mysql", 0o700}, {filepath.Join(b.state(), "rabbitmq"), "rabbitmq", 0o700},
		{filepath.Join(b.state(), "home"), "root", 0o700}, {filepath.Join(b.state(), "tmp"), "root", 0o777 | os.ModeSticky}, {filepath.Join(b.state(), "locks"), "root", 0o700},
		{filepath.Join(b.state(), "octavia"), "root", 0o700}, {filepath.Join(b.state(), "neutron"), "root", 0o700},
		{filepath.Join(b.state(), "glance", "images"), "root", 0o700}, {filepath.Join(b.state(), "cinder", "volumes"), "root", 0o700},
		{filepath.Join(b.state(), "keystone", "fernet"), "root", 0o700}, {filepath.Join(b.state(), "keystone", "credential"), "root", 0o700},
		{filepath.Join(b.state(), "nova"), "root", 0o700}, {b.tlsDir(), "root", 0o700},
		{filepath.Join(b.state(), "bind"), "root", 0o700}, {filepath.Join(b.state(), "designate"), "root", 0o700},
	} {
		if err := os.MkdirAll(d.path, d.mode); err != nil {
			return fail.Wrap(fail.Internal, err, "make the state directory")
		}
		if err := os.Chmod(d.path, d.mode); err != nil {
			return fail.Wrap(fail.Internal, err, "make the state directory")
		}
		if err := chown(d.path, d.owner); err != nil {
			return err
		}
	}
	return nil
}

func chown(path, name string) error {
	u, err := user.Lookup(name)
	if err != nil {
		return fail.Wrap(fail.Refused, err, "find the user that a service runs as").Do("run hack/setup openstack")
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return err
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return err
	}
	return os.Chown(path, uid, gid)
}

// write replaces a file atomically.
func write(path string, data []byte, mode os.FileMode) error {
	tmp := path + ".new"
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(tmp, data, mode); err != nil {
		return err
	}
	if err := os.Chmod(tmp, mode); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}
