package image

import (
	"crypto/sha256"
	"fmt"
	"strings"
)

// ids are the identifiers on the disk. They are derived from the image's content, so that a recreated image has the same ones.
type ids struct {
	disk, bios, efi, system string // GPT
	root                    string // root file system
	esp                     uint32 // EFI system partition's file system
}

func newIDs(bundle, agent string) ids {
	of := func(what string) [32]byte {
		return sha256.Sum256([]byte(strings.Join([]string{recipe, bundle, agent, what}, "\x00")))
	}
	uuid := func(what string) string {
		h := of(what)
		h[6] = h[6]&0x0f | 0x80 // version 8: custom
		h[8] = h[8]&0x3f | 0x80
		return fmt.Sprintf("%x-%x-%x-%x-%x", h[0:4], h[4:6], h[6:8], h[8:10], h[10:16])
	}
	esp := of("esp file system")
	return ids{
		disk: uuid("disk"), bios: uuid("bios"), efi: uuid("efi"), system: uuid("system"), root: uuid("root file system"),
		esp: uint32(esp[0])<<24 | uint32(esp[1])<<16 | uint32(esp[2])<<8 | uint32(esp[3]),
	}
}

// espName returns the name of the EFI system partition's file system in fstab.
func (i ids) espName() string { return fmt.Sprintf("%04X-%04X", i.esp>>16, i.esp&0xffff) }
