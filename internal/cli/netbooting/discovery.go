package netbooting

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/image/discovery"
	"github.com/naupegos/naupegos/internal/netboot/boot"
)

// The profiles of machines that match no group.
const (
	discoveryProfile = "naupegos-discovery"
	diskProfile      = "naupegos-disk"
)

const (
	noImage    = "none"
	imageAgain = 5 * time.Minute // pause after an image could not be made
)

// Discovery configures the discovery image, which machines boot that match no group.
type Discovery struct {
	HTTPS     string // address of the server for machines that booted the image, in the form of --listen-https
	Authority string // digest of the server's authority for these machines: "sha256:…"
	Agent     func() (string, error)
	// Disk reports whether the machine with these labels boots from its disk.
	Disk func(ctx context.Context, labels map[string]string) (bool, error)
	Log  *slog.Logger
}

// Discover makes machines that match no group boot the discovery image, once it exists, and returns a function that makes the image. It returns nil
// if the operator wants no image, or if no interface is served, because then the server's address for machines is unknown.
func (s Site) Discover(f *Flags, d Discovery) (func(context.Context) error, error) {
	if f.iface == "" && (f.image != "" || len(f.args) > 0) {
		return nil, fail.New(fail.Invalid, "--discovery-image and --discovery-arg need --netboot-interface")
	}
	if f.iface == "" || f.image == noImage {
		return nil, nil
	}
	server, err := d.url(s.Address())
	if err != nil {
		return nil, err
	}
	var ready atomic.Bool
	s.Fallback = func(ctx context.Context, labels map[string]string) string {
		disk, err := d.Disk(ctx, labels)
		if err != nil { // the image makes the machine ask again, and installs nothing without permission
			d.Log.Error("whether a machine is installed is not known; it boots the discovery image", "labels", labels, "error", err.Error())
		}
		switch {
		case disk:
			return diskProfile
		case ready.Load():
			return discoveryProfile
		}
		return ""
	}
	profiles := map[string]boot.Profile{diskProfile: {ID: diskProfile, Boot: &boot.Kernel{Disk: true}}}
	s.Registry.Replace(boot.Config{Profiles: maps.Clone(profiles)})
	return func(ctx context.Context) error {
		for {
			image, err := d.image(ctx, f.image)
			if err == nil {
				err = s.serveImage(image, profiles, d.arguments(server, f.args))
			}
			if err == nil {
				ready.Store(true)
				d.Log.Info("machines that no group is for boot the discovery image", "image", image.ID, "kernel", image.Info.Kernel, "server", server)
				return nil
			}
			if ctx.Err() != nil {
				return nil
			}
			d.Log.Error("there is no discovery image: machines that no group is for can't boot", "error", err.Error(), "again", imageAgain.String())
			select {
			case <-time.After(imageAgain):
			case <-ctx.Done():
				return nil
			}
		}
	}, nil
}

// url returns the server's URL for machines. Its address is that of the interface that they boot over, unless the server listens only at another one.
func (d Discovery) url(address netip.Addr) (string, error) {
	host, port, err := net.SplitHostPort(d.HTTPS)
	if err != nil || port == "0" {
		return "", fail.New(fail.Invalid, "machines need to be told a port, and --listen-https %q has none", d.HTTPS).Do("say --listen-https :8443")
	}
	if a, err := netip.ParseAddr(host); host == "" || err == nil && a.IsUnspecified() {
		host = address.String()
	}
	return "https://" + net.JoinHostPort(host, port), nil
}

// arguments returns the kernel's arguments. UEFI requires the name of the initramfs.
func (d Discovery) arguments(server string, more []string) []string {
	return append([]string{
		"initrd=" + discovery.InitrdFile, "naupegos.server=" + server, "naupegos.authority=" + d.Authority, "BOOTIF=01-${mac:hexhyp}",
		"console=tty0", "console=ttyS0,115200", "panic=60",
	}, more...)
}

// image returns the operator's image, or builds one if none exists.
func (d Discovery) image(ctx context.Context, dir string) (*discovery.Image, error) {
	if dir != "" {
		return discovery.Open(dir)
	}
	cache, err := Cache()
	if err != nil {
		return nil, err
	}
	agent, err := d.Agent()
	if err != nil {
		return nil, err
	}
	return discovery.Build(ctx, discovery.Options{Agent: agent, Cache: cache, Progress: logged{d.Log}})
}

// serveImage puts an image among the assets, in its own directory, so that a booting machine gets kernel and initramfs of the same image. It removes
// other images.
func (s Site) serveImage(image *discovery.Image, profiles map[string]boot.Profile, args []string) error {
	top := filepath.Join(s.dir, "assets", "discovery")
	if err := image.CopyTo(filepath.Join(top, image.ID)); err != nil {
		return err
	}
	at := path.Join("/assets/discovery", image.ID)
	profiles[discoveryProfile] = boot.Profile{ID: discoveryProfile,
		Boot: &boot.Kernel{Kernel: path.Join(at, discovery.KernelFile), Initrd: []string{path.Join(at, discovery.InitrdFile)}, Args: args}}
	s.Registry.Replace(boot.Config{Profiles: maps.Clone(profiles)})
	found, err := os.ReadDir(top)
	if err != nil {
		return fail.Wrap(fail.Internal, err, "look for former discovery images")
	}
	for _, d := range found {
		if d.IsDir() && d.Name() != image.ID {
			if err := os.RemoveAll(filepath.Join(top, d.Name())); err != nil {
				return fail.Wrap(fail.Refused, err, "remove a former discovery image")
			}
		}
	}
	return nil
}

// logged logs the progress of building an image.
type logged struct{ log *slog.Logger }

// Status implements plan.Progress.
func (l logged) Status(format string, args ...any) {
	l.log.Info("discovery image: " + fmt.Sprintf(format, args...))
}
