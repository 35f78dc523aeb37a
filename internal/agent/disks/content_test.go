package disks

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/testkit"
)

// sparse is a disk of zeros with data in some places.
type sparse struct {
	size  int64
	parts map[int64]string
	bad   int64 // reads of this offset fail; 0: none
}

func (s sparse) ReadAt(p []byte, off int64) (int, error) {
	if s.bad > 0 && off <= s.bad && s.bad < off+int64(len(p)) {
		return 0, errors.New("input/output error")
	}
	clear(p)
	for at, data := range s.parts {
		if from := max(at, off); from < at+int64(len(data)) && from < off+int64(len(p)) {
			copy(p[from-off:], data[from-at:])
		}
	}
	return len(p), nil
}

// TestEmpty: a disk is empty only if its beginning and its end are zeros.
func TestEmpty(t *testing.T) {
	for _, size := range []int64{512, mib, Edge - 512, Edge, Edge + 512, 2 * Edge, 2*Edge + 512, 32 * mib, 480103981056} {
		if holds, err := Content(sparse{size: size}, size); err != nil || len(holds) != 0 {
			t.Errorf("%d zeros hold %v, %v", size, holds, err)
		}
		for _, at := range []int64{0, 1, 511, 440, Edge / 2, Edge - 1, size - Edge, size - mib, size - 512, size - 1} {
			if at < 0 || at >= size {
				continue
			}
			if holds, err := Content(sparse{size: size, parts: map[int64]string{at: "\x01"}}, size); err != nil || len(holds) == 0 {
				t.Errorf("of %d bytes, the one at %d is overlooked: %v", size, at, err)
			}
		}
	}
	for text, c := range map[string]sparse{
		"0xff":  {size: 16 * mib, parts: map[int64]string{0: strings.Repeat("\xff", int(16*mib))}},
		Unknown: {size: 16 * mib, parts: map[int64]string{mib: "precious"}},
	} {
		if holds := testkit.Value(Content(c, c.size))(t); len(holds) != 1 || !strings.Contains(holds[0], text) {
			t.Errorf("%v instead of %s", holds, text)
		}
	}
	for _, bad := range []int64{1, 16*mib - 1} {
		if _, err := Content(sparse{size: 16 * mib, bad: bad}, 16*mib); err == nil {
			t.Error("an unreadable disk is empty")
		}
	}
	if _, err := Content(sparse{size: 16 * mib, bad: 8 * mib}, 16*mib); err != nil {
		t.Error(err) // Content does not read there
	}
	if _, err := Content(sparse{}, 0); err == nil {
		t.Error("a disk without size is empty")
	}
}

// TestSamples: a disk with data in the middle alone is not empty, unless it has very little.
func TestSamples(t *testing.T) {
	const size = 4 * tib
	r := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct{ parts, least int }{{20, 4}, {200, 28}} { // of a hundredth of a percent each
		found := 0
		for range 30 {
			d := scattered{size: size, part: size / 10_000}
			for range c.parts {
				d.at = append(d.at, Edge+r.Int64N(size-size/10_000-2*Edge))
			}
			holds := testkit.Value(Content(d, size))(t)
			if len(holds) > 0 {
				found++
			}
		}
		if found < c.least {
			t.Errorf("of 30 disks with data in %d places, %d count as used", c.parts, found)
		}
	}
	for size := int64(2*Edge - 4096); size < 2*Edge+3*sampleSize; size += 4096 { // no room for samples, or little
		if holds := testkit.Value(Content(sparse{size: size}, size))(t); len(holds) > 0 {
			t.Errorf("%d zeros hold %s", size, holds)
		}
		if middle := size - 2*Edge; middle > 0 {
			if holds := testkit.Value(Content(sparse{size: size, parts: map[int64]string{Edge + middle/2: "\x01"}}, size))(t); len(holds) == 0 {
				t.Errorf("of %d bytes, the one in the middle is overlooked", size)
			}
		}
	}
}

// scattered is a disk of zeros with data in parts of one size.
type scattered struct {
	size, part int64
	at         []int64
}

func (s scattered) ReadAt(p []byte, off int64) (int, error) {
	clear(p)
	for _, at := range s.at {
		if off < at+s.part && at < off+int64(len(p)) {
			p[0] = 1
		}
	}
	return len(p), nil
}

// TestSignatures: Content names each signature at each of its places, alone on a disk.
func TestSignatures(t *testing.T) {
	const small, large = 200*mib + 7*512, 2 * tib
	kinds := map[string]bool{}
	for _, size := range []int64{small, large} {
		for _, s := range slices.Concat(signatures, variable(size)) {
			kinds[s.name] = true
			for i, at := range s.at {
				if len(s.at) > 32 && i%37 != 0 { // test a sample of ZFS's 256 places
					continue
				}
				if at < 0 {
					at += size
				}
				for _, m := range s.magic {
					if at < 0 || at+int64(len(m)) > size || size == large && at < small {
						continue
					}
					if holds := testkit.Value(Content(sparse{size: size, parts: map[int64]string{at: m}}, size))(t); !slices.Contains(holds, s.name) {
						t.Errorf("of %d bytes, %s at %d is taken for %v", size, s.name, at, holds)
					}
				}
			}
		}
	}
	if len(kinds) < 60 {
		t.Errorf("only %d kinds have a name", len(kinds))
	}
}

// TestNames: ambiguous signatures and noise get the right names.
func TestNames(t *testing.T) {
	const size = 64 * mib
	for want, parts := range map[string]map[int64]string{
		"gpt mbr":         {510: "\x55\xaa", 512: "EFI PART", size - 512: "EFI PART"},
		"gpt":             {size - 512: "EFI PART"},
		"vfat mbr":        {82: "FAT32   ", 510: "\x55\xaa"},
		"lvm":             {512: "LABELONE"},
		"raid":            {(size/512 - 16) / 8 * 4096: "\xfc\x4e\x2b\xa9"},
		"zfs":             {size - 256*kib + 128*kib + 9*kib: "\x0c\xb1\xba\x00\x00\x00\x00\x00"},
		"iso9660":         {32*kib + 1: "CD001"},
		"ext":             {1080: "\x53\xef"},
		Unknown:           {9: "VeraCrypt looks like noise"},
		"btrfs":           {64*mib - 8 - 64 + 64: "", 64*kib + 64: "_BHRfS_M"},
		"drbd":            {size - 4096 + 60: "\x83\x74\x02\x6b"},
		"isw_raid_member": {size - 1024: "Intel Raid ISM Cfg Sig. 1.3.00"},
	} {
		if got := strings.Join(testkit.Value(Content(sparse{size: size, parts: parts}, size))(t), " "); got != want {
			t.Errorf("%q instead of %q", got, want)
		}
	}
	r := rand.NewChaCha8([32]byte{3})
	for range 20 {
		noise := make([]byte, 8*mib)
		testkit.Value(r.Read(noise))(t)
		if holds := testkit.Value(Content(bytes.NewReader(noise), int64(len(noise))))(t); len(holds) == 0 {
			t.Fatal("noise is empty")
		}
	}
}

func FuzzContent(f *testing.F) {
	f.Add([]byte("EFI PART"), int64(512), int64(1<<20))
	f.Fuzz(func(t *testing.T, data []byte, at, size int64) {
		if size <= 0 || size > 1<<40 || at < 0 || at+int64(len(data)) > size {
			return
		}
		holds, err := Content(sparse{size: size, parts: map[int64]string{at: string(data)}}, size)
		visible := strings.Trim(string(data), "\x00") != "" && (at+int64(len(data)) <= Edge || at >= size-Edge)
		if err != nil || visible && len(holds) == 0 {
			t.Fatal(holds, err)
		}
	})
}
