package slots

import (
	"bytes"
	"errors"
	"os"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
)

// EnvPath is the path on the EFI system partition at which both boot loaders look for Env.
const EnvPath = "EFI/debian/grubenv"

// Env is the boot loader's state. The boot loader clears Try before it boots that slot, so that a slot is tried once.
type Env struct {
	Good string // slot to boot
	Try  string // slot to boot once instead; empty: none
	A, B string // IDs of the slots' partitions
}

const (
	envHead = "# GRUB Environment Block\n"
	envSize = 1024 // GRUB writes the file in place, so its size never changes
)

// Bytes is the file.
func (e Env) Bytes() []byte {
	var b bytes.Buffer
	b.WriteString(envHead)
	for _, v := range [][2]string{{"good", e.Good}, {"try", e.Try}, {"a", e.A}, {"b", e.B}} {
		b.WriteString(v[0] + "=" + v[1] + "\n")
	}
	return append(b.Bytes(), bytes.Repeat([]byte("#"), envSize-b.Len())...)
}

// ParseEnv parses the file. It returns fail.Invalid for another format, or if the file names no slot.
func ParseEnv(data []byte) (Env, error) {
	var e Env
	if len(data) != envSize || !bytes.HasPrefix(data, []byte(envHead)) {
		return e, fail.New(fail.Invalid, "this is not GRUB's environment: %d bytes", len(data))
	}
	for line := range strings.Lines(string(data[len(envHead):])) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		switch key {
		case "good":
			e.Good = value
		case "try":
			e.Try = value
		case "a":
			e.A = value
		case "b":
			e.B = value
		}
	}
	if e.Good != A && e.Good != B || e.Try != "" && e.Try != A && e.Try != B {
		return e, fail.New(fail.Invalid, "the boot loader remembers the slots %q and %q, which are none", e.Good, e.Try)
	}
	return e, nil
}

// ReadEnv reads the boot loader's state.
func ReadEnv(path string) (Env, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Env{}, fail.Wrap(fail.Refused, err, "read the boot loader's environment")
	}
	e, err := ParseEnv(data)
	if err != nil {
		return e, fail.Wrap(fail.Invalid, err, "read the boot loader's environment").At(path)
	}
	return e, nil
}

// WriteEnv writes the boot loader's state in place, as GRUB does. The state fits one sector, which a disk writes completely or not at all.
func WriteEnv(path string, e Env) error {
	data := e.Bytes()
	if _, err := ParseEnv(data); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_SYNC, 0)
	if err != nil {
		return fail.Wrap(fail.Refused, err, "write the boot loader's environment")
	}
	_, err = f.WriteAt(data, 0)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fail.Wrap(fail.Refused, err, "write the boot loader's environment")
	}
	return nil
}

// ID returns the GUID of a slot's partition.
func (e Env) ID(slot string) string {
	if slot == B {
		return e.B
	}
	return e.A
}
