package bed

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

// MachineImage is the image of servers that the runner boots with a bundle.
const MachineImage = "naupegos-debian-12"

// runnerPatience is how long the runner may take to remove its machines.
const runnerPatience = 3 * time.Minute

// Machines starts a runner that boots real machines for Nova's servers until the bed stops. It creates an image that names the machines' bundle,
// and builds the runner from the package in dir (the root of the clone). agent is the path of naupegos-agent on this host.
func (b *Bed) Machines(ctx context.Context, dir, agent, bundle string) error {
	if err := b.EnsureMachineImage(ctx, bundle); err != nil {
		return err
	}
	binary := b.runnerProgram()
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-gcflags=all=-dwarf=false", "-ldflags", "-s -w", "-o", binary+".new", "./test/openstack/runner")
	build.Dir, build.Stderr, build.Env = dir, os.Stderr, append(os.Environ(), "CGO_ENABLED=0") // as make build does
	if err := build.Run(); err != nil {
		return fail.Wrap(fail.Internal, err, "build the runner")
	}
	if err := os.Rename(binary+".new", binary); err != nil {
		return err
	}
	s := b.runner()
	s.args = append(s.args, "-agent", agent)
	for _, name := range []string{"HOME", "XDG_CACHE_HOME", "PATH"} { // bundles and images are in this user's cache
		if v, ok := os.LookupEnv(name); ok {
			s.env = append(s.env, name+"="+v)
		}
	}
	return s.Start(ctx)
}

// EnsureMachineImage creates MachineImage, and replaces it if its bundle differs. Fake hypervisors never read the image's content.
func (b *Bed) EnsureMachineImage(ctx context.Context, bundle string) error {
	a, err := b.login(ctx)
	if err != nil {
		return err
	}
	url := b.glance() + "/images"
	all, err := a.list(ctx, url, "images")
	if err != nil {
		return err
	}
	for _, o := range all {
		switch {
		case o["name"] != MachineImage:
		case o["naupegos_bundle"] == bundle && o["status"] == "active":
			return nil
		default:
			if _, err := a.call(ctx, http.MethodDelete, url+"/"+idOf(o), nil, nil); err != nil {
				return err
			}
		}
	}
	id, err := a.ensure(ctx, url, "images", "", object{
		"name": MachineImage, "disk_format": "raw", "container_format": "bare", "visibility": "public", "min_disk": 1,
		"os_distro": "debian", "os_version": "12", "naupegos_bundle": bundle,
	})
	if err != nil {
		return err
	}
	_, err = a.call(ctx, http.MethodPut, url+"/"+id+"/file", make([]byte, 1<<20), nil)
	return err
}

// runner is the service that boots machines for servers. It is not part of the cloud; only Machines starts it.
func (b *Bed) runner() *Service {
	s := &Service{Name: "runner", b: b, args: []string{b.runnerProgram(), "-state", b.o.Root}}
	s.ready = func(context.Context) (bool, error) { return s.Running(), nil }
	return s
}

// stopRunner stops the runner and waits until it has removed its machines.
func (b *Bed) stopRunner(ctx context.Context) error {
	file := b.record("runner")
	p, err := readProcess(file)
	if err != nil {
		return err
	}
	if err := p.stop(ctx, runnerPatience); err != nil {
		return fail.Wrap(fail.NotReady, err, "stop the runner")
	}
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (b *Bed) runnerProgram() string { return filepath.Join(b.run(), "runner-program") }
