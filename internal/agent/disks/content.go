package disks

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/naupegos/naupegos/internal/registry/facts"
)

// Edge is the size of the areas at a disk's beginning and end that must be zero if the disk is empty.
const Edge = 4 * mib

// samples are places between the edges, each of sampleSize, that must be zero, too. Without its beginning and end, a disk with data on a fiftieth of its
// space passes for empty with a probability below one in a hundred. They cost a rotating disk two or three seconds.
const (
	samples    = 256
	sampleSize = 64 * kib
)

// Unknown is the name of content without a known signature.
const Unknown = "something unknown"

// Unfinished marks the beginning of a disk during its installation, until the boot loader's code overwrites it. No partition table or file system uses
// that place. An interrupted installation of a marked disk can resume without consent.
const Unfinished = "naupegos installation in progress\n"

// protective is the type of the protective MBR partition of a GPT. With a GPT, the partitions' names identify the disk's owner.
const protective = "\xee"

// HoldsUnfinished is the name of such a disk's content.
const HoldsUnfinished = facts.Unfinished

// regions holds a disk's beginning and end in memory. Other places are read on demand.
type regions struct {
	from   io.ReaderAt
	size   int64
	begin  []byte
	end    []byte
	endsAt int64 // offset of end
}

// look reads the edges of a disk. With an error, unreadable parts are zero.
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

// text returns bytes at an offset, or "" if they are outside of the disk or unreadable.
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
	got, _ := r.from.ReadAt(part, offset) // ignore unreadable copies between the edges
	return string(part[:got])
}

// Content names the content of a disk by its edges, the known places of superblocks between them, and samples; nil if all are zero. With an error, it names the
// readable content.
func Content(from io.ReaderAt, size int64) ([]string, error) {
	if size <= 0 {
		return nil, errors.New("the disk has no size")
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
		if at, found := r.sampled(); found {
			return []string{fmt.Sprintf("%s (near %d MiB)", Unknown, at/mib)}, err
		}
		return nil, err
	case same:
		return []string{fmt.Sprintf("%s (only bytes 0x%02x)", Unknown, b)}, err
	}
	return []string{Unknown}, err
}

// same reports whether both edges consist of one repeated byte.
func (r *regions) same() (b byte, same bool) {
	b = r.begin[0]
	return b, bytes.Count(r.begin, []byte{b}) == len(r.begin) && bytes.Count(r.end, []byte{b}) == len(r.end)
}

// sampled returns the first of the evenly spaced samples between the edges that is not zero. It skips unreadable ones.
func (r *regions) sampled() (at int64, found bool) {
	span := r.endsAt - int64(len(r.begin))
	part, zeros := make([]byte, sampleSize), make([]byte, sampleSize)
	for i := range int64(samples) {
		at = int64(len(r.begin)) + span/samples*i/4096*4096
		n, _ := r.from.ReadAt(part[:max(0, min(sampleSize, r.endsAt-at))], at)
		if !bytes.Equal(part[:n], zeros[:n]) {
			return at, true
		}
	}
	return 0, false
}
