package netboot

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/netboot/boot"
	"github.com/naupegos/naupegos/internal/netboot/programs"
)

// Paths are the patterns that a Site serves over HTTP. They need no authentication.
var Paths = []string{"/{$}", "/boot.ipxe", "/boot.ipxe.0", "/ipxe", "/grub", "/ignition", "/cloud", "/generic", "/metadata", AssetsPath, programsPath + "{name}"}

// AssetsPath is the pattern of kernels and images, whose requests take long.
const AssetsPath = "/assets/"

// Site serves the boot endpoints of a directory. A Service, in a process without keys, leads the machines of a network interface to a Site.
type Site struct {
	// Registry has precedence over the directory. The registry of machines adds groups and profiles to it; a group's profile may be in either
	// catalog.
	Registry *boot.Catalog
	// Fallback returns the profile of a machine without a group. It must be set before the first request; see boot.Options.
	Fallback func(ctx context.Context, labels map[string]string) string

	files    *boot.Directory
	address  netip.Addr
	handler  http.Handler
	watching atomic.Bool
}

// OpenSite reads the directory, which it creates if necessary, and checks cfg's settings of an interface.
func OpenSite(dir string, cfg Config) (*Site, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(filepath.Join(dir, "assets"), 0o755); err != nil {
		return nil, fail.Wrap(fail.Refused, err, "make the boot directory").At(dir)
	}
	s := &Site{Registry: boot.NewCatalog()}
	var err error
	if s.files, err = boot.OpenDirectory(dir, cfg.Log); err != nil {
		return nil, err
	}
	fallback := func(ctx context.Context, labels map[string]string) string {
		if s.Fallback == nil {
			return ""
		}
		return s.Fallback(ctx, labels)
	}
	s.handler = boot.Handler(boot.Options{Catalogs: []*boot.Catalog{s.Registry, s.files.Catalog}, Assets: boot.AssetsOf(dir), Fallback: fallback, Log: cfg.Log})
	if cfg.Interface == "" {
		return s, nil
	}
	if _, err := cfg.check(); err != nil {
		return nil, err
	}
	set, err := programs.Find(cfg.Programs...)
	if err != nil {
		return nil, err
	}
	s.address, s.handler = cfg.Address, withPrograms(set, s.handler)
	return s, nil
}

// Address returns this server's address on the interface that machines boot over. It is invalid if no interface is served.
func (s *Site) Address() netip.Addr {
	return s.address
}

// ServeHTTP implements http.Handler for Paths.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Files returns the catalog of the directory.
func (s *Site) Files() *boot.Catalog { return s.files.Catalog }

// Run follows changes of the directory until ctx ends.
func (s *Site) Run(ctx context.Context) error {
	s.watching.Store(true)
	defer s.watching.Store(false)
	return s.files.Watch(ctx)
}

// Health reports whether the site can read the directory and gets its changes. A failure of any other part ends Run.
func (s *Site) Health(context.Context) map[string]bool {
	return map[string]bool{"boot directory": s.watching.Load() && s.files.Readable()}
}
