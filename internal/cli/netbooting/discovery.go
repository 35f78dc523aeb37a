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

// The profiles of machines that no group is for.
const (
	discoveryProfile = "naupegos-discovery"
	diskProfile      = "naupegos-disk"
)

const (
	noImage    = "none"
	imageAgain = 5 * time.Minute // after an image could not be made
)

// Discovery is what a server adds to a site, so that machines that no group is for boot the discovery image.
type Discovery struct {
	HTTPS     string // where the server is asked by machines that have booted it, as --listen-https has it
	Authority string // by what they believe the server: "sha256:…"
	Agent     func() (string, error)
	// Disk reports whether the machine of these labels starts from its disk.
	Disk func(ctx context.Context, labels map[string]string) (bool, error)
	Log  *slog.Logger
}

// Discover has machines that no group is for boot the discovery image, once there is one, and returns what makes it. It returns nil where the
// operator wants none, and where no interface is served: nobody could say then by which address machines reach the server.
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
		if err != nil { // the image has the machine ask again, and installs nothing that may not be
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

// url is where machines ask the server: at the address of the interface that they boot over, unless it listens at another one alone.
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

// arguments are those of the kernel. UEFI wants to be told which file is the initramfs.
func (d Discovery) arguments(server string, more []string) []string {
	return append([]string{
		"initrd=" + discovery.InitrdFile, "naupegos.server=" + server, "naupegos.authority=" + d.Authority, "BOOTIF=01-${mac:hexhyp}",
		"console=tty0", "console=ttyS0,115200", "panic=60",
	}, more...)
}

// image is the operator's, or one that is made where there is none yet.
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

// serveImage puts an image among the assets, in a directory of its own, so that a machine that boots has kernel and initramfs of one image. Others
// are removed.
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

// logged has the log hear how far an image is.
type logged struct{ log *slog.Logger }

// Status implements plan.Progress.
func (l logged) Status(format string, args ...any) {
	l.log.Info("discovery image: " + fmt.Sprintf(format, args...))
}
