package shared

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/naupegos/naupegos/internal/provider/local/files"
	"github.com/naupegos/naupegos/internal/provider/local/process"
)

// Setting is one kernel setting of the host, which all machines on it share.
type Setting struct {
	Was string `json:"was"`
	Set string `json:"set"`
}

// hostMinimums are the host's settings that machines need, at least this high. inotify: every systemd and every kubelet
// takes dozens of instances, and the kernel's 128 are for the whole host.
var hostMinimums = map[string]int{
	"net/ipv4/ip_forward":           1,
	"fs/inotify/max_user_instances": 2048,
	"fs/inotify/max_user_watches":   262144,
}

// hostSettings raises the host's settings and puts them back. There is one record of what they were for the whole host, whatever the
// state root: the kernel has each of them once. Only what is read needs no lock; raise and restore are called under the host's.
type hostSettings struct {
	proc     string         // where the kernel shows its settings
	file     string         // the record
	minimums map[string]int // by name under proc
	boot     string         // the host's boot ID: what is set, and what was, ends with the boot
	network  string         // the network namespace that this process is in, which has settings of its own
}

// settingsOfHost returns the settings of this host, as this process sees them.
func settingsOfHost() (hostSettings, error) {
	boot, err := process.BootID()
	if err != nil {
		return hostSettings{}, err
	}
	network, err := networkNamespace()
	return hostSettings{proc: files.ProcSys, file: filepath.Join(hostDir, "settings.json"), minimums: hostMinimums, boot: boot, network: network}, err
}

// settingsRecord is what the record's file holds.
type settingsRecord struct {
	Boot     string             `json:"boot"`
	Settings map[string]Setting `json:"settings"` // by hostSettings.key
}

// key is a setting's name in the record. Those below net are of one network namespace each, the others of the kernel.
func (h hostSettings) key(name string) string {
	if strings.HasPrefix(name, "net/") {
		return name + "@" + h.network
	}
	return name
}

// low returns those of the settings that are too low, with what they are and what they should be.
func (h hostSettings) low() (map[string]Setting, error) {
	low := map[string]Setting{}
	for name, least := range h.minimums {
		was, err := h.now(name)
		if err != nil {
			return nil, err
		}
		n, err := strconv.Atoi(was)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if n < least {
			low[name] = Setting{Was: was, Set: strconv.Itoa(least)}
		}
	}
	return low, nil
}

func (h hostSettings) now(name string) (string, error) {
	data, err := os.ReadFile(filepath.Join(h.proc, name))
	return strings.TrimSpace(string(data)), err
}

// Describe says what would be set, one line each.
func Describe(low map[string]Setting) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(low)) {
		out = append(out, fmt.Sprintf("host setting %s: %s → %s", strings.ReplaceAll(name, "/", "."), low[name].Was, low[name].Set))
	}
	return out
}

// raise sets what is too low, and remembers first what it was. A setting that is low although it is remembered was never set, or somebody
// has changed it since: what it is now is what it was.
func (h hostSettings) raise() error {
	low, err := h.low()
	if err != nil || len(low) == 0 {
		return err
	}
	remembered, err := h.remembered()
	if err != nil {
		return err
	}
	for name, s := range low {
		if before, ok := remembered[h.key(name)]; ok && before.Set == s.Was {
			s.Was = before.Was // raised already, to what was enough then
		}
		remembered[h.key(name)] = s
	}
	if err := h.remember(remembered); err != nil {
		return err
	}
	for name, s := range low {
		if err := files.Set(h.proc, name, s.Set); err != nil {
			return fmt.Errorf("set %s: %w", name, err)
		}
	}
	return nil
}

// restore puts back what raise remembers and what is used no more, except what somebody else has changed since, and forgets it.
func (h hostSettings) restore(used use) error {
	remembered, err := h.remembered()
	if err != nil || len(remembered) == 0 {
		return err
	}
	for name := range h.minimums {
		perNetwork := h.key(name) != name
		s, ok := remembered[h.key(name)]
		if !ok || used.network || used.machines && !perNetwork {
			continue
		}
		now, err := h.now(name)
		if err != nil {
			return err
		}
		if now == s.Set {
			if err := files.Set(h.proc, name, s.Was); err != nil {
				return fmt.Errorf("put %s back: %w", name, err)
			}
		}
		delete(remembered, h.key(name))
	}
	return h.remember(remembered)
}

// remembered reads the record: empty where there is none of this boot.
func (h hostSettings) remembered() (map[string]Setting, error) {
	var r settingsRecord
	if err := files.ReadJSON(h.file, &r); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if r.Boot != h.boot || r.Settings == nil {
		return map[string]Setting{}, nil
	}
	return r.Settings, nil
}

// remember writes the record, or removes it where nothing is left to remember.
func (h hostSettings) remember(settings map[string]Setting) error {
	if len(settings) == 0 {
		return files.IgnoreGone(os.Remove(h.file))
	}
	return files.WriteJSON(h.file, settingsRecord{Boot: h.boot, Settings: settings})
}
