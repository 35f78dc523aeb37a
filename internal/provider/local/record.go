package local

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/local/files"
)

// record is the content of machine.json. It is written with Created false before the machine's disk is made,
// and again when the disk is complete: a crash in between leaves a Partial machine.
type record struct {
	Cluster string        `json:"cluster"`
	Name    string        `json:"name"`
	Role    provider.Role `json:"role"`
	Pool    string        `json:"pool,omitempty"`
	Index   int           `json:"index"`
	Address string        `json:"address"` // with prefix length: "10.77.0.21/24"
	Gateway string        `json:"gateway"`
	Bridge  string        `json:"bridge"`
	Link    string        `json:"link"`  // the host's end of the machine's network link
	Lower   []string      `json:"lower"` // image layers below the overlay, topmost first
	Store   string        `json:"store,omitempty"`
	HostKey string        `json:"hostKey"` // public, authorized_keys form
	Created bool          `json:"created"`

	damage string // why the record can't be read; the machine's disk may still be whole
}

// ip returns the address without its prefix length.
func (r record) ip() string {
	ip, _, _ := strings.Cut(r.Address, "/")
	return ip
}

// The paths in a machine's directory.
func recordFile(dir string) string  { return filepath.Join(dir, "machine.json") }
func runFile(dir string) string     { return filepath.Join(dir, "run.json") }
func lockPath(dir string) string    { return filepath.Join(dir, "lock") }
func consoleFile(dir string) string { return filepath.Join(dir, "console.log") }
func upperDir(dir string) string    { return filepath.Join(dir, "upper") }
func workDir(dir string) string     { return filepath.Join(dir, "work") }
func mountDir(dir string) string    { return filepath.Join(dir, "mnt") }
func volumeDir(dir, name string) string {
	return filepath.Join(dir, "volumes", name)
}

func readRecord(dir string) (record, error) {
	var r record
	err := files.ReadJSON(recordFile(dir), &r)
	return r, err
}

// records reads the record of every machine directory under dir. If a crash came before the record was written, or if the record is
// damaged, only the name is set; the damage field tells the two apart.
func records(dir string) ([]record, error) {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case errors.Is(err, fs.ErrPermission):
		return nil, needRoot(err)
	case err != nil:
		return nil, err
	}
	var out []record
	for _, e := range entries {
		r, err := readRecord(filepath.Join(dir, e.Name()))
		switch {
		case errors.Is(err, fs.ErrPermission):
			return nil, needRoot(err)
		case errors.Is(err, fs.ErrNotExist):
			r = record{Name: e.Name()}
		case err != nil:
			r = record{Name: e.Name(), damage: err.Error()}
		case r.Name != e.Name():
			r = record{Name: e.Name(), damage: "the record in its directory is that of " + r.Name}
		}
		out = append(out, r)
	}
	return out, nil
}

func needRoot(err error) error {
	return fail.Wrap(fail.Refused, err, "look at local machines").Do("run the command as root, as when they were made")
}
