package netbooting

import (
	"log/slog"

	"github.com/naupegos/naupegos/internal/netboot"
	"github.com/naupegos/naupegos/internal/server"
)

// Site is the server's service for booting machines.
type Site struct {
	*netboot.Site
	dir string
	cfg netboot.Config
}

// Open opens the service according to the flags. The boot configuration is in the state directory; machines receive the address httpAddress.
func Open(f *Flags, stateDir, httpAddress string, log *slog.Logger) (Site, error) {
	cfg, err := f.Config(stateDir, httpAddress, log)
	if err != nil {
		return Site{}, err
	}
	s, err := netboot.OpenSite(Dir(stateDir), cfg)
	return Site{s, Dir(stateDir), cfg}, err
}

// Part returns the service as a part of a server, for machines that boot over HTTPS. The front process serves plain HTTP.
func (s Site) Part() server.Part {
	p := server.Part{Name: "boot", Run: s.Run, Health: s.Health}
	for _, pattern := range netboot.Paths {
		m := server.Mount{Pattern: pattern, Handler: s.Site, On: server.API, Scope: server.Machine()}
		if pattern == netboot.AssetsPath {
			m.Stream = true // kernels and images
		}
		p.Mounts = append(p.Mounts, m)
	}
	return p
}
