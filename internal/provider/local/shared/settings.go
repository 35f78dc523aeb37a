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

// Setting is the former and the new value of one kernel setting of the host.
type Setting struct {
	Was string `json:"was"`
	Set string `json:"set"`
}

// hostMinimums maps the host's settings to the lowest values that machines need. inotify: every systemd and every kubelet
// uses dozens of instances, and the kernel's default limit of 128 is for the whole host.
var hostMinimums = map[string]int{
	"net/ipv4/ip_forward":           1,
	"fs/inotify/max_user_instances": 2048,
	"fs/inotify/max_user_watches":   262144,
}

// hostSettings raises the host's settings and restores them. One record keeps their former values for the whole host and all state
// roots, because they are the kernel's. raise and restore require the host's lock; reading does not.
type hostSettings struct {
	proc     string         // the directory of the kernel's settings
	file     string         // the record
	minimums map[string]int // by name under proc
	boot     string         // the host's boot ID: a record is valid only until the next boot
	network  string         // this process's network namespace, which has settings of its own
}

// settingsOfHost returns the hostSettings for this host and this process's network namespace.
func settingsOfHost() (hostSettings, error) {
	boot, err := process.BootID()
	if err != nil {
		return hostSettings{}, err
	}
	network, err := networkNamespace()
	return hostSettings{proc: files.ProcSys, file: filepath.Join(hostDir, "settings.json"), minimums: hostMinimums, boot: boot, network: network}, err
}

// settingsRecord is the content of the record's file.
type settingsRecord struct {
	Boot     string             `json:"boot"`
	Settings map[string]Setting `json:"settings"` // by hostSettings.key
}

// key returns a setting's name in the record. Settings below net exist per network namespace, the others once per kernel.
func (h hostSettings) key(name string) string {
	if strings.HasPrefix(name, "net/") {
		return name + "@" + h.network
	}
	return name
}

// low returns the settings that are too low, with their current and their wanted values.
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

// Describe returns one line for each setting that would be raised.
func Describe(low map[string]Setting) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(low)) {
		out = append(out, fmt.Sprintf("host setting %s: %s → %s", strings.ReplaceAll(name, "/", "."), low[name].Was, low[name].Set))
	}
	return out
}

// raise sets the settings that are too low, after recording their former values. If a recorded setting is low and does not have the value
// that raise set, either it was never set or another program has changed it since: its current value becomes the recorded one.
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
			s.Was = before.Was // raised already, to a former minimum
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

// restore restores the recorded settings that machines no longer use, and forgets them. It leaves values that another program has
// changed since.
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

// remembered reads the record; the result is empty if there is no record of this boot.
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

// remember writes the record, or removes it if settings is empty.
func (h hostSettings) remember(settings map[string]Setting) error {
	if len(settings) == 0 {
		return files.IgnoreGone(os.Remove(h.file))
	}
	return files.WriteJSON(h.file, settingsRecord{Boot: h.boot, Settings: settings})
}
