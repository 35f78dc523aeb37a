package boot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/agent/host"
	"github.com/naupegos/naupegos/internal/fail"
)

// needed lists modules that no device requests.
var needed = []string{"af_packet", "efivarfs", "sd_mod", "ipmi_devintf", "ipmi_si", "ext4", "vfat", "nls_cp437", "nls_ascii"}

// Modules indexes a kernel's modules, as listed by depmod(8).
type Modules struct {
	dir     string
	files   map[string]string   // by name
	needs   map[string][]string // dependencies, by file
	aliases map[string][]alias  // by bus
	loaded  map[string]bool     // files
	insert  func(file string) error
}

// alias maps a pattern of devices to a module.
type alias struct{ pattern, module string }

// OpenModules reads the lists in a directory such as /lib/modules/RELEASE.
func OpenModules(dir string) (*Modules, error) {
	m := &Modules{dir: dir, files: map[string]string{}, needs: map[string][]string{}, aliases: map[string][]alias{}, loaded: map[string]bool{}, insert: insert}
	deps, err := os.ReadFile(filepath.Join(dir, "modules.dep"))
	if err != nil {
		return nil, fail.Wrap(fail.NotFound, err, "read which modules the kernel has")
	}
	for line := range strings.Lines(string(deps)) {
		file, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		m.files[nameOf(file)] = file
		m.needs[file] = strings.Fields(rest)
	}
	list, err := os.ReadFile(filepath.Join(dir, "modules.alias"))
	if err != nil {
		return nil, fail.Wrap(fail.NotFound, err, "read which modules the kernel has")
	}
	for line := range strings.Lines(string(list)) {
		f := strings.Fields(line)
		if len(f) != 3 || f[0] != "alias" {
			continue
		}
		bus := busOf(f[1])
		m.aliases[bus] = append(m.aliases[bus], alias{f[1], f[2]})
	}
	return m, nil
}

func busOf(alias string) string {
	bus, _, _ := strings.Cut(alias, ":")
	return bus
}

// nameOf returns the name of the module in a file.
func nameOf(file string) string {
	name, _, _ := strings.Cut(path.Base(file), ".ko")
	return strings.ReplaceAll(name, "-", "_")
}

// Load loads the modules for a name or a device's alias, with their dependencies. A name without a module may be built into the kernel.
func (m *Modules) Load(name string) error {
	var err error
	for _, module := range m.find(name) {
		err = errors.Join(err, m.load(m.files[module]))
	}
	return err
}

func (m *Modules) find(name string) (found []string) {
	if n := nameOf(name); m.files[n] != "" {
		return []string{n}
	}
	for _, a := range m.aliases[busOf(name)] {
		if ok, err := path.Match(a.pattern, name); err == nil && ok && m.files[a.module] != "" && !slices.Contains(found, a.module) {
			found = append(found, a.module)
		}
	}
	return found
}

// load loads a file after its dependencies. modules.dep lists them in order, the deepest last.
func (m *Modules) load(file string) error {
	files := append([]string{file}, m.needs[file]...)
	for _, f := range slices.Backward(files) {
		if m.loaded[f] {
			continue
		}
		m.loaded[f] = true // do not retry a module that failed to load
		if err := m.insert(filepath.Join(m.dir, f)); err != nil {
			return fmt.Errorf("load %s: %w", nameOf(f), err)
		}
	}
	return nil
}

func insert(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.FinitModule(int(f.Fd()), "", 0); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	return nil
}

// Modprobe loads a module of the running kernel, like modprobe(8). The kernel itself requests some modules through it.
func Modprobe(name string) error {
	m, err := OpenModules(host.ModulesDir())
	if err != nil {
		return err
	}
	if len(m.find(name)) == 0 {
		return fail.New(fail.NotFound, "there is no module %s", name)
	}
	return m.Load(name)
}

// loadModules loads the modules that the machine's devices request until no new devices appear, because a bridge may reveal more.
func (b *boot) loadModules() {
	m, err := OpenModules(host.ModulesDir())
	if err != nil {
		b.say("no modules are loaded: " + err.Error())
		return
	}
	problem := func(err error) {
		if err != nil && !errors.Is(err, unix.ENODEV) { // of a device that this machine does not have
			b.say(err.Error())
		}
	}
	for _, name := range needed {
		problem(m.Load(name))
	}
	asked := map[string]bool{}
	for {
		fresh := 0
		for _, a := range b.devices() {
			if !asked[a] {
				asked[a] = true
				fresh++
				problem(m.Load(a))
			}
		}
		if fresh == 0 {
			break
		}
	}
	b.mountEFI()
}

// devices returns the aliases of all devices that the kernel has found.
func (b *boot) devices() (all []string) {
	_ = filepath.WalkDir(b.root.Path("/sys/devices"), func(file string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "modalias" {
			if data, err := os.ReadFile(file); err == nil {
				all = append(all, strings.TrimSpace(string(data)))
			}
		}
		return nil // an unreadable file is not a device
	})
	return all
}
