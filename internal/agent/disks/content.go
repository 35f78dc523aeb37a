package disks

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/naupegos/naupegos/internal/registry/facts"
)

// Edge is how much of a disk's beginning, and of its end, has to be zeros for the disk to be empty.
const Edge = 4 * mib

// Unknown is what a disk holds whose content matches no signature.
const Unknown = "something unknown"

// Unfinished begins a disk while Naupegos installs it: the boot loader's code overwrites it at the end. It stands where no partition table and no
// file system keeps anything, so that an installation that was cut off can go on without consent.
const Unfinished = "naupegos installation in progress\n"

// protective is the type of the MBR's partition that comes with a GPT. Once it is there, the names of partitions tell whose the disk is.
const protective = "\xee"

// HoldsUnfinished names what such a disk holds.
const HoldsUnfinished = facts.Unfinished

// regions are a disk's beginning and end in memory. Places between them are read as needed.
type regions struct {
	from   io.ReaderAt
	size   int64
	begin  []byte
	end    []byte
	endsAt int64 // where end begins
}

// look reads the edges of a disk of a size. What can't be read is zeros beside the error.
func look(from io.ReaderAt, size int64) (r *regions, err error) {
	r = &regions{from: from, size: size, begin: make([]byte, min(Edge, size)), endsAt: max(min(Edge, size), size-Edge)}
	r.end = make([]byte, size-r.endsAt)
	for at, part := range map[int64][]byte{0: r.begin, r.endsAt: r.end} {
		if n, e := from.ReadAt(part, at); n < len(part) {
			err = errors.Join(err, fmt.Errorf("read %d bytes at %d: %w", len(part), at, e))
		}
	}
	return r, err
}

// text returns so many bytes at an offset; empty if the disk has no such place, or if it can't be read.
func (r *regions) text(offset int64, n int) string {
	long := int64(n)
	switch {
	case offset < 0 || offset+long > r.size:
		return ""
	case offset+long <= int64(len(r.begin)):
		return string(r.begin[offset : offset+long])
	case offset >= r.endsAt:
		return string(r.end[offset-r.endsAt : offset-r.endsAt+long])
	}
	part := make([]byte, n)
	got, _ := r.from.ReadAt(part, offset) // a copy between the edges that can't be read says nothing
	return string(part[:got])
}

// Content names what a disk holds, by its first and last MiB; nil if both are zeros, and there is no copy of a superblock between them. With an error
// it names what could be read.
func Content(from io.ReaderAt, size int64) ([]string, error) {
	if size <= 0 {
		return nil, errors.New("it has no size")
	}
	r, err := look(from, size)
	if bytes.HasPrefix(r.begin, []byte(Unfinished)) && r.text(450, 1) != protective {
		return []string{HoldsUnfinished}, err
	}
	if found := names(r); len(found) > 0 {
		return found, err
	}
	switch b, same := r.same(); {
	case same && b == 0:
		return nil, err
	case same:
		return []string{fmt.Sprintf("%s (nothing but bytes 0x%02x)", Unknown, b)}, err
	}
	return []string{Unknown}, err
}

// same reports whether both edges repeat one byte.
func (r *regions) same() (b byte, same bool) {
	b = r.begin[0]
	return b, bytes.Count(r.begin, []byte{b}) == len(r.begin) && bytes.Count(r.end, []byte{b}) == len(r.end)
}
