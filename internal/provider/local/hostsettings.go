package local

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
)

// setting is one kernel setting of the host, which all clusters on it share.
type setting struct {
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

const procSys = "/proc/sys"

// lowSettings returns those of minimums that are too low under dir, with what they are and what they should be.
func lowSettings(dir string, minimums map[string]int) (map[string]setting, error) {
	low := map[string]setting{}
	for name, least := range minimums {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		was := strings.TrimSpace(string(data))
		n, err := strconv.Atoi(was)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if n < least {
			low[name] = setting{Was: was, Set: strconv.Itoa(least)}
		}
	}
	return low, nil
}

// describe says what would be set, one line each.
func describe(low map[string]setting) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(low)) {
		out = append(out, fmt.Sprintf("host setting %s: %s → %s", strings.ReplaceAll(name, "/", "."), low[name].Was, low[name].Set))
	}
	return out
}

// raiseSettings sets what is too low under dir and remembers in file what it was. Call it under the host lock.
func raiseSettings(dir, file string, minimums map[string]int) error {
	low, err := lowSettings(dir, minimums)
	if err != nil || len(low) == 0 {
		return err
	}
	remembered := map[string]setting{}
	if err := readJSON(file, &remembered); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for name, s := range low {
		if _, ok := remembered[name]; !ok {
			remembered[name] = s
		}
	}
	if err := writeJSON(file, remembered); err != nil {
		return err
	}
	for name, s := range low {
		if err := put(dir, name, s.Set); err != nil {
			return fmt.Errorf("set %s: %w", name, err)
		}
	}
	return nil
}

// restoreSettings puts back what raiseSettings remembered, except what somebody else has changed since, and forgets it.
// Call it under the host lock, when the last cluster goes.
func restoreSettings(dir, file string) error {
	remembered := map[string]setting{}
	if err := readJSON(file, &remembered); err != nil {
		return ignoreGone(err)
	}
	for name, s := range remembered {
		now, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		if strings.TrimSpace(string(now)) != s.Set {
			continue
		}
		if err := put(dir, name, s.Was); err != nil {
			return fmt.Errorf("put %s back: %w", name, err)
		}
	}
	return os.Remove(file)
}
