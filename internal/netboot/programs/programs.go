// Package programs has the iPXE programs that firmware of each kind is given over the network. They come from the host's package ipxe, are read
// once and kept in memory. The package knows nothing of how they are asked for.
package programs

import (
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/insomniacslk/dhcp/iana"

	"github.com/naupegos/naupegos/internal/fail"
)

// Directories are where distributions put iPXE.
var Directories = []string{"/usr/lib/ipxe", "/usr/share/ipxe", "/usr/lib/ipxe/arm64-efi", "/usr/share/ipxe/arm64-efi"}

// kind is a kind of firmware: its program as it is given out, and the files that will do, the best one first. The small ones use the
// firmware's own driver of the network card that it booted from, and so know every card.
type kind struct {
	name  string
	archs []iana.Arch
	files []string
}

var kinds = []kind{
	{"undionly.kpxe", []iana.Arch{iana.INTEL_X86PC}, []string{"undionly.kpxe", "ipxe.pxe"}},
	// EFI_BC is what x86-64 firmware says that it is.
	{"snponly.efi", []iana.Arch{iana.EFI_BC, iana.EFI_X86_64, iana.EFI_X86_64_HTTP}, []string{"snponly.efi", "ipxe-snponly-x86_64.efi", "ipxe.efi", "ipxe-x86_64.efi"}},
	{"snponly-arm64.efi", []iana.Arch{iana.EFI_ARM64, iana.EFI_ARM64_HTTP}, []string{"snponly-arm64.efi", "ipxe-snponly-arm64.efi", "ipxe-arm64.efi", "arm64-efi/snponly.efi", "arm64-efi/ipxe.efi"}},
}

// Set is the programs of a host, by the names under which they are given out.
type Set struct{ files map[string][]byte }

// Find reads the programs of this host from the first of the directories that has one. It fails where there is none for x86, neither for BIOS
// nor for UEFI; without one for arm64 machines of that kind are not answered.
func Find(dirs ...string) (*Set, error) {
	s := &Set{files: map[string][]byte{}}
	for _, k := range kinds {
		for _, dir := range dirs {
			for _, file := range k.files {
				if s.files[k.name] != nil {
					continue
				}
				data, err := os.ReadFile(filepath.Join(dir, file))
				if err != nil && !os.IsNotExist(err) {
					return nil, fail.Wrap(fail.Internal, err, "read iPXE")
				}
				if len(data) > 0 {
					s.files[k.name] = data
				}
			}
		}
	}
	for _, k := range kinds[:2] {
		if s.files[k.name] == nil {
			return nil, fail.New(fail.NotFound, "iPXE is not installed on this host: there is no %s in %v", k.files[0], dirs).Do("apt-get install ipxe")
		}
	}
	return s, nil
}

// For returns the name of the program for a kind of firmware. It reports false where there is none.
func (s *Set) For(arch iana.Arch) (string, bool) {
	for _, k := range kinds {
		if slices.Contains(k.archs, arch) && s.files[k.name] != nil {
			return k.name, true
		}
	}
	return "", false
}

// Get returns the program that is given out under a name, or nil. It is not to be changed.
func (s *Set) Get(name string) []byte { return s.files[name] }

// Names returns under which names programs are given out.
func (s *Set) Names() []string { return slices.Sorted(maps.Keys(s.files)) }
