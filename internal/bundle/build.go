package bundle

import (
	"context"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/fail"
)

// Origins of a bundle's programs: Manifest.Origin.
const (
	originBuilt  = "built"
	originPulled = "pulled"
)

// Build makes a bundle from source: programs through the Go module proxy, verified against pinned checksums; nftables, iptables
// and certificates from Debian packages. Completed steps are cached, so that an interrupted build resumes and a second build ends within
// seconds. fail.Invalid for a release without a recipe, fail.Refused if the machine lacks Go, apt or space.
func (l *Library) Build(ctx context.Context, o BuildOptions) (*Bundle, error) {
	if _, err := findSets(o.Addons); err != nil {
		return nil, err
	}
	b, err := l.buildPlain(ctx, o)
	if err != nil || len(o.Addons) == 0 {
		return b, err
	}
	return l.extend(ctx, b, o)
}

func (l *Library) buildPlain(ctx context.Context, o BuildOptions) (*Bundle, error) {
	rec, err := findRecipe(o.Kubernetes)
	if err != nil {
		return nil, err
	}
	g, err := newGoTool(ctx, o.Go)
	if err != nil {
		return nil, err
	}
	a, unlock, err := l.assemble(ctx, rec, originBuilt, o.Progress)
	if err != nil {
		return nil, err
	}
	defer unlock()
	get := func(ctx context.Context) (programs, []Component, error) {
		return l.compileAll(ctx, g, rec.components(), o.Parallel, a.report)
	}
	return a.make(ctx, get)
}

const spaceNeeded = 2 << 30 // bytes that a build writes into the library, with some to spare

func (l *Library) checkSpace() error {
	var fs unix.Statfs_t
	if err := unix.Statfs(l.root, &fs); err != nil {
		return ioError(err, "look for free space", l.root)
	}
	if free := fs.Bavail * uint64(fs.Bsize); free < spaceNeeded {
		return fail.New(fail.Refused, "only %d MiB are free, a build needs %d", free>>20, uint64(spaceNeeded)>>20).At(l.root).
			Do("free space there, or name another library")
	}
	return nil
}

// compileAll compiles components, some at the same time.
func (l *Library) compileAll(ctx context.Context, g *goTool, list []component, parallel int, r *reporter) (programs, []Component, error) {
	if parallel <= 0 {
		parallel = 2
	}
	var mu sync.Mutex
	out := programs{}
	made := []Component{{Name: "go", Version: g.version, Source: "the toolchain that compiled the programs"}}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, c := range list {
		group.Go(func() error {
			e, err := l.compile(ctx, g, c, r)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			out.addAll(c.name, e)
			made = append(made, Component{Name: c.name, Version: c.version, Source: c.source()})
			return nil
		})
	}
	err := group.Wait()
	slices.SortFunc(made, func(a, b Component) int { return strings.Compare(a.Name, b.Name) })
	return out, made, err
}
