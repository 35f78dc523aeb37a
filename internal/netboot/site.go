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

// Paths are the patterns of what a Site answers over HTTP. Each is open to whoever reaches the listener.
var Paths = []string{"/{$}", "/boot.ipxe", "/boot.ipxe.0", "/ipxe", "/grub", "/ignition", "/cloud", "/generic", "/metadata", AssetsPath, programsPath + "{name}"}

// AssetsPath is the pattern of kernels and images, which take their time.
const AssetsPath = "/assets/"

// Site is the boot endpoints on a directory. What leads machines there on a network interface, a Service does, in a process without keys.
type Site struct {
	// Registry is asked before the directory. Who knows machines puts groups and profiles there; profiles may lie in either.
	Registry *boot.Catalog
	// Fallback says which profile a machine has that no group is for, if it is set before the site is asked; see boot.Options.
	Fallback func(ctx context.Context, labels map[string]string) string

	files    *boot.Directory
	address  netip.Addr
	handler  http.Handler
	watching atomic.Bool
}

// OpenSite reads the directory, which is made if it does not exist, and checks what cfg says of an interface.
func OpenSite(dir string, cfg Config) (*Site, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(filepath.Join(dir, "assets"), 0o755); err != nil {
		return nil, fail.Wrap(fail.Refused, err, "make the directory of what machines boot").At(dir)
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

// Address returns this server's address on the interface that machines boot over; not a valid one where none is served.
func (s *Site) Address() netip.Addr {
	return s.address
}

// ServeHTTP answers Paths.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Files returns the catalog of the directory.
func (s *Site) Files() *boot.Catalog { return s.files.Catalog }

// Run follows the directory until ctx ends.
func (s *Site) Run(ctx context.Context) error {
	s.watching.Store(true)
	defer s.watching.Store(false)
	return s.files.Watch(ctx)
}

// Health reports whether the site reads the directory and sees its changes. A failure of any other part ends the Site.
func (s *Site) Health(context.Context) map[string]bool {
	return map[string]bool{"boot directory": s.watching.Load() && s.files.Readable()}
}
