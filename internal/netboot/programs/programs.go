// Package programs provides the iPXE programs for each kind of firmware. It reads them once from the host's package ipxe and keeps them in
// memory. It does not know the protocols that serve them.
package programs

import (
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/insomniacslk/dhcp/iana"

	"github.com/naupegos/naupegos/internal/fail"
)

// Directories are the directories of iPXE in common distributions.
var Directories = []string{"/usr/lib/ipxe", "/usr/share/ipxe", "/usr/lib/ipxe/arm64-efi", "/usr/share/ipxe/arm64-efi"}

// kind is a kind of firmware: the name of its program, and the suitable files, the best one first. The small files use the firmware's own driver
// of the boot network card, and so support every card.
type kind struct {
	name  string
	archs []iana.Arch
	files []string
}

var kinds = []kind{
	{"undionly.kpxe", []iana.Arch{iana.INTEL_X86PC}, []string{"undionly.kpxe", "ipxe.pxe"}},
	// x86-64 firmware identifies itself as EFI_BC.
	{"snponly.efi", []iana.Arch{iana.EFI_BC, iana.EFI_X86_64, iana.EFI_X86_64_HTTP}, []string{"snponly.efi", "ipxe-snponly-x86_64.efi", "ipxe.efi", "ipxe-x86_64.efi"}},
	{"snponly-arm64.efi", []iana.Arch{iana.EFI_ARM64, iana.EFI_ARM64_HTTP}, []string{"snponly-arm64.efi", "ipxe-snponly-arm64.efi", "ipxe-arm64.efi", "arm64-efi/snponly.efi", "arm64-efi/ipxe.efi"}},
}

// Set holds a host's programs by the names under which they are served.
type Set struct{ files map[string][]byte }

// Find reads this host's programs from the first directory that has one. It fails if there is no program for x86, neither for BIOS nor for UEFI.
// Without a program for arm64, arm64 machines get no answer.
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

// For returns the name of the program for a kind of firmware, or false if there is none.
func (s *Set) For(arch iana.Arch) (string, bool) {
	for _, k := range kinds {
		if slices.Contains(k.archs, arch) && s.files[k.name] != nil {
			return k.name, true
		}
	}
	return "", false
}

// Get returns the program with a name, or nil. The caller must not change it.
func (s *Set) Get(name string) []byte { return s.files[name] }

// Names returns the names of the programs.
func (s *Set) Names() []string { return slices.Sorted(maps.Keys(s.files)) }
