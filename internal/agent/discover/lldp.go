package discover

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"net"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry/facts"
)

// Constants of LLDP frames (IEEE 802.1AB).
const (
	lldpType    = 0x88cc
	etherHeader = 14

	tlvEnd         = 0
	tlvChassis     = 1
	tlvPort        = 2
	tlvDescription = 4
	tlvSystem      = 5

	chassisMAC     = 4
	chassisAddress = 5
	portMAC        = 3
	portAddress    = 4
)

var errLLDP = errors.New("it is no LLDP frame")

// parseLLDP parses an Ethernet frame from a switch.
func parseLLDP(frame []byte) (n facts.Neighbour, err error) {
	if len(frame) < etherHeader || binary.BigEndian.Uint16(frame[12:]) != lldpType {
		return n, errLLDP
	}
	for rest := frame[etherHeader:]; len(rest) >= 2; {
		head := binary.BigEndian.Uint16(rest)
		kind, size := int(head>>9), int(head&0x1ff)
		if rest = rest[2:]; size > len(rest) {
			return n, errLLDP
		}
		value := rest[:size]
		rest = rest[size:]
		switch kind {
		case tlvEnd:
			return n, complete(n)
		case tlvChassis:
			n.Chassis.ID = identifier(value, chassisMAC, chassisAddress)
		case tlvPort:
			n.Port.ID = identifier(value, portMAC, portAddress)
		case tlvDescription:
			n.Port.Description = printable(value)
		case tlvSystem:
			n.Chassis.Name = printable(value)
		}
	}
	return n, complete(n) // some switches omit the end
}

func complete(n facts.Neighbour) error {
	if n.Chassis.ID == "" || n.Port.ID == "" {
		return errLLDP
	}
	return nil
}

// identifier renders an ID; its first byte is its type.
func identifier(value []byte, mac, address byte) string {
	if len(value) < 2 {
		return ""
	}
	kind, id := value[0], value[1:]
	switch {
	case kind == mac && len(id) == 6:
		return net.HardwareAddr(id).String()
	case kind == address && len(id) > 1:
		if a, ok := netip.AddrFromSlice(id[1:]); ok {
			return a.String()
		}
		return hex.EncodeToString(id)
	}
	return printable(id)
}

// printable returns a neighbour's text, or its hexadecimal digits if it is not text.
func printable(b []byte) string {
	text := strings.TrimRight(string(b), "\x00 ")
	for _, r := range text {
		if r < ' ' || r == 0x7f || r == '\ufffd' {
			return hex.EncodeToString(b)
		}
	}
	return text
}

// Listen waits until each of the interfaces has received an advertisement from its switch, or ctx ends. Switches send one every 30 s.
func Listen(ctx context.Context, interfaces []facts.Interface) ([]facts.Neighbour, error) {
	index := map[int]string{}
	for _, i := range interfaces {
		if n, err := net.InterfaceByName(i.Name); err == nil && i.Link {
			index[n.Index] = i.Name
		}
	}
	if len(index) == 0 {
		return []facts.Neighbour{}, nil
	}
	kind := binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, lldpType))
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(kind))
	if err != nil {
		return nil, fail.Wrap(fail.Refused, err, "listen to switches").Do("the agent has to run as root")
	}
	defer func() { _ = unix.Close(fd) }()
	for i := range index {
		if err := join(fd, i); err != nil {
			return nil, fail.Wrap(fail.Internal, err, "listen to switches at %s", index[i])
		}
	}
	return hear(ctx, fd, index)
}

// join makes an interface accept the frames that switches send to their neighbours.
func join(fd, index int) error {
	m := unix.PacketMreq{Ifindex: int32(index), Type: unix.PACKET_MR_MULTICAST, Alen: 6, Address: [8]byte{0x01, 0x80, 0xc2, 0x00, 0x00, 0x0e}}
	return unix.SetsockoptPacketMreq(fd, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, &m)
}

// hear collects one neighbour for each interface.
func hear(ctx context.Context, fd int, index map[int]string) ([]facts.Neighbour, error) {
	wait := unix.NsecToTimeval(int64(200 * time.Millisecond))
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait); err != nil {
		return nil, fail.Wrap(fail.Internal, err, "listen to switches")
	}
	found := []facts.Neighbour{}
	buffer := make([]byte, 2048)
	for len(index) > 0 && ctx.Err() == nil {
		n, from, err := unix.Recvfrom(fd, buffer, 0)
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, fail.Wrap(fail.Internal, err, "listen to switches")
		}
		at, ok := from.(*unix.SockaddrLinklayer)
		if !ok || at.Pkttype == unix.PACKET_OUTGOING || index[at.Ifindex] == "" {
			continue
		}
		neighbour, err := parseLLDP(buffer[:n])
		if err != nil {
			continue // ignore senders of malformed frames
		}
		neighbour.Name = index[at.Ifindex]
		found = append(found, neighbour)
		delete(index, at.Ifindex)
	}
	return found, nil
}
