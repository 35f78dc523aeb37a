package bed

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/naupegos/naupegos/internal/fail"
)

func addressMark(b *Bed) string { return filepath.Join(b.run(), "address") }

// addAddress adds the API's address to the loopback link, so that this host and machines behind its bridges reach it.
func addAddress(ctx context.Context, b *Bed) error {
	have, err := hasAddress(b.o.Address)
	if err != nil || have {
		return err // the address belongs to this machine, or an earlier start added it
	}
	if err := write(addressMark(b), []byte(b.o.Address+"\n"), 0o600); err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, "ip", "address", "add", b.o.Address+"/32", "dev", "lo").CombinedOutput(); err != nil {
		return fail.Wrap(fail.Refused, err, "put %s on the loopback link: %s", b.o.Address, bytes.TrimSpace(out))
	}
	return nil
}

// dropAddress removes the address if addAddress added it.
func dropAddress(ctx context.Context, b *Bed) error {
	mark, err := os.ReadFile(addressMark(b))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	address := string(bytes.TrimSpace(mark))
	if have, err := hasAddress(address); err != nil {
		return err
	} else if have {
		if out, err := exec.CommandContext(ctx, "ip", "address", "del", address+"/32", "dev", "lo").CombinedOutput(); err != nil {
			return fail.Wrap(fail.Internal, err, "take %s off the loopback link: %s", address, bytes.TrimSpace(out))
		}
	}
	return os.Remove(addressMark(b))
}

func hasAddress(address string) (bool, error) {
	want, err := netip.ParseAddr(address)
	if err != nil {
		return false, err
	}
	all, err := net.InterfaceAddrs()
	if err != nil {
		return false, err
	}
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr() == want {
			return true, nil
		}
	}
	return false, nil
}
