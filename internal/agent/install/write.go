package install

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"

	"github.com/cespare/xxhash/v2"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/agent/install/slots"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry/order"
)

// chunk is the number of bytes written at once.
const chunk = 1 << 20

// device is the target of an image: a partition, or the whole disk.
type device interface {
	io.ReaderAt
	io.WriterAt
	Sync() error
	Fd() uintptr
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// write writes an image to a device, reads it back, and compares. It passes its progress to told, which may end it. The SHA-256 of the download (see
// stream) proves that it is the right image, and zstd that it is unpacked correctly. A quick checksum proves that the disk keeps what was written,
// because the disk is not an adversary: on a processor without SHA-256 instructions, two more SHA-256 sums would take longer than everything else.
func write(from io.Reader, b order.Blob, to device, told func(done int64) error) error {
	packed := bufio.NewReaderSize(from, chunk)
	z, err := zstd.NewReader(packed, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(512<<20))
	if err != nil {
		return fail.Wrap(fail.Internal, err, "unpack %s", b.Path)
	}
	defer z.Close()
	sum, zeros, buf := xxhash.New(), make([]byte, chunk), make([]byte, chunk)
	var at int64
	for {
		n, err := io.ReadFull(z, buf)
		if at+int64(n) > b.RawSize {
			return fail.New(fail.Conflict, "%s is larger than its %d bytes", b.Path, b.RawSize)
		}
		if n > 0 {
			_, _ = sum.Write(buf[:n]) // never fails
			if err := put(to, buf[:n], zeros[:n], at); err != nil {
				return fail.Wrap(fail.Refused, err, "write %s at byte %d", b.Path, at).Do("the disk may be failing: look at the kernel's log")
			}
			at += int64(n)
			if err := told(at); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			return damaged(err, b)
		}
	}
	if _, err := packed.ReadByte(); !errors.Is(err, io.EOF) { // the stream's own error about its checksum
		return damaged(err, b)
	}
	if at != b.RawSize {
		return fail.New(fail.Conflict, "%s unpacks to %d bytes, and should to %d", b.Path, at, b.RawSize)
	}
	if err := to.Sync(); err != nil {
		return fail.Wrap(fail.Refused, err, "flush %s to the disk", b.Path).Do("the disk may be failing: look at the kernel's log")
	}
	return verify(b, to, sum.Sum64())
}

// damaged classifies the end of unpacking: it returns an error of ours unchanged.
func damaged(err error, b order.Blob) error {
	var own *fail.Error
	if errors.As(err, &own) {
		return err
	}
	if err == nil {
		err = errors.New("there is more behind it")
	}
	return fail.Wrap(fail.Conflict, err, "unpack %s", b.Path).Do("make the system image again: naupegos image system")
}

// put writes a chunk. For a chunk of zeros it makes a hole if the device supports holes.
func put(to device, data, zeros []byte, at int64) error {
	if bytes.Equal(data, zeros) && unix.Fallocate(int(to.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, at, int64(len(data))) == nil {
		return nil
	}
	_, err := to.WriteAt(data, at)
	return err
}

// verify reads an image back from the disk instead of the page cache.
func verify(b order.Blob, from device, written uint64) error {
	_ = unix.Fadvise(int(from.Fd()), 0, b.RawSize, unix.FADV_DONTNEED) // a page that can't be dropped is read from memory
	sum := xxhash.New()
	if _, err := io.CopyBuffer(struct{ io.Writer }{sum}, io.NewSectionReader(from, 0, b.RawSize), make([]byte, chunk)); err != nil {
		return fail.Wrap(fail.Refused, err, "read %s back from the disk", b.Path).Do("the disk may be failing: look at the kernel's log")
	}
	if sum.Sum64() != written {
		return fail.New(fail.Refused, "the disk gives back something else than was written of %s", b.Path).Do("the disk or its controller is failing: replace it")
	}
	return nil
}

// headOf is a disk without its partition tables, which it neither writes nor reads: they read as zeros.
type headOf struct{ device }

const tables = slots.BIOSStart // end of the first partition table

// WriteAt implements io.WriterAt.
func (h headOf) WriteAt(p []byte, at int64) (int, error) {
	n := len(p)
	if at < slots.BootCode {
		if _, err := h.device.WriteAt(p[:min(int64(n), slots.BootCode-at)], at); err != nil {
			return 0, err
		}
	}
	if skip := max(tables-at, 0); skip < int64(n) {
		if _, err := h.device.WriteAt(p[skip:], at+skip); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// ReadAt implements io.ReaderAt.
func (h headOf) ReadAt(p []byte, at int64) (int, error) {
	n, err := h.device.ReadAt(p, at)
	for i := max(slots.BootCode-at, 0); i < min(tables-at, int64(n)); i++ {
		p[i] = 0
	}
	return n, err
}

// Fd returns an invalid descriptor, because a disk's beginning gets no holes.
func (h headOf) Fd() uintptr { return ^uintptr(0) >> 1 }
