// Package rack emulates a rack of machines: QEMU processes with persistent disks, each with a BMC that switches it by IPMI. Tests and the demo let
// naupegos server boot, install and switch them like physical machines.
//
// It does not depend on Naupegos, which uses it by IPMI and over the network.
package rack

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/bougou/go-ipmi/pkg/bmc"
	"github.com/bougou/go-ipmi/pkg/clock"
	"github.com/bougou/go-ipmi/pkg/hal/mock"
	"github.com/bougou/go-ipmi/pkg/server"
	"github.com/bougou/go-ipmi/pkg/transport/udp"
)

// User is the user of the BMCs.
const User = "admin"

// Spec describes a machine.
type Spec struct {
	Name      string // also the end of its disk's serial number: DISK-NAME
	MAC       string
	UEFI      bool
	CPUs      int    // 0: 1
	MemoryMiB int    // 0: 1536
	DiskGiB   int    // 0: 12
	Tap       string // network link of the machine; empty: "tap-" + Name
	BMC       string // HOST:PORT, UDP, of its BMC
	Password  string // of User on the BMC
	Odd
}

// Machine is an emulated machine.
type Machine struct {
	Spec
	UUID string // as reported by the firmware

	dir    string
	bridge string
	power  power
	ipmi   *server.Server
	conn   interface{ Close() error }
	secure bool // guarded by power.mu
}

// New makes a machine with an empty disk, or uses the one in dir, and starts its BMC. The machine is off. Its network card is connected to the link
// bridge in this process's network namespace.
func New(ctx context.Context, dir, bridge string, s Spec) (*Machine, error) {
	s.CPUs = max(1, s.CPUs)
	if s.MemoryMiB == 0 {
		s.MemoryMiB = 1536
	}
	if s.DiskGiB == 0 {
		s.DiskGiB = 12
	}
	if s.Tap == "" {
		s.Tap = "tap-" + s.Name
	}
	m := &Machine{Spec: s, UUID: "16e7d8a7-bfa9-428b-9117-3633" + strings.ReplaceAll(s.MAC, ":", "")[4:], dir: dir, bridge: bridge}
	if err := m.makeDisk(); err != nil {
		return nil, err
	}
	if err := m.plug(ctx); err != nil {
		return nil, err
	}
	m.power.start = m.start
	if err := m.serve(ctx); err != nil {
		return nil, errors.Join(err, m.unplug())
	}
	return m, nil
}

// makeDisk makes the disk, and the file for the firmware's variables.
func (m *Machine) makeDisk() error {
	if err := os.MkdirAll(m.dir, 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(m.disk(), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Truncate(int64(m.DiskGiB)<<30), f.Close()); err != nil || !m.UEFI {
		return err
	}
	if _, err := os.Stat(m.variables()); err == nil {
		return nil
	}
	empty, err := os.ReadFile("/usr/share/OVMF/OVMF_VARS_4M.fd")
	if err != nil {
		return fmt.Errorf("%w: apt-get install ovmf", err)
	}
	return os.WriteFile(m.variables(), empty, 0o600)
}

func (m *Machine) disk() string      { return filepath.Join(m.dir, "disk") }
func (m *Machine) variables() string { return filepath.Join(m.dir, "variables") }

// ConsoleFile returns the path of the machine's serial console output.
func (m *Machine) ConsoleFile() string { return filepath.Join(m.dir, "console") }

// Console returns the output of the serial console.
func (m *Machine) Console() string {
	data, _ := os.ReadFile(m.ConsoleFile()) // the file does not exist before the first start
	return string(data)
}

// Switch switches the machine's power on or off, without a shutdown.
func (m *Machine) Switch(on bool) error { return m.power.set(on) }

// SecureBoot makes the firmware of a machine with UEFI start only programs signed by Microsoft, from the next start on; it resets the firmware's
// variables to their defaults.
func (m *Machine) SecureBoot() error {
	m.power.mu.Lock()
	defer m.power.mu.Unlock()
	delivered, err := os.ReadFile("/usr/share/OVMF/OVMF_VARS_4M.ms.fd")
	if err != nil {
		return fmt.Errorf("%w: apt-get install ovmf", err)
	}
	m.secure = true
	return os.WriteFile(m.variables(), delivered, 0o600)
}

// On reports whether the machine is on.
func (m *Machine) On() bool { return m.power.isOn() }

// Close switches the machine and its BMC off. The disk stays.
func (m *Machine) Close() error {
	_ = m.ipmi.Close() // the machine is switched off in any case
	err := m.conn.Close()
	if errors.Is(err, net.ErrClosed) { // the server has closed it
		err = nil
	}
	return errors.Join(err, m.power.set(false), m.unplug())
}

// hardware is the machine as the BMC sees it.
type hardware struct {
	*mock.HAL
	chassis *chassis
}

// serve starts the BMC, until Close.
func (m *Machine) serve(ctx context.Context) error {
	ch := &chassis{Chassis: &mock.Chassis{}, m: m}
	m.power.boot = ch.once
	b := bmc.New(bmc.DeviceInfo{DeviceID: 32, IPMIVersion: 0x20}, [16]byte([]byte(strings.ReplaceAll(m.UUID, "-", "")[:16])), hardware{mock.New(), ch}, bmc.WithClock(clock.Real))
	u, err := b.Users.Add(2, User)
	if err != nil {
		return err
	}
	u.SetPassword([]byte(m.Password))
	u.Enabled = true
	u.ChannelAccess[1] = bmc.UserChannelAccess{MaxPrivilege: bmc.PrivilegeLevelAdministrator, Enabled: true}
	conn, err := udp.Listen(m.BMC)
	if err != nil {
		return err
	}
	m.conn, m.ipmi = conn, server.NewServer(b, conn)
	go func() { _ = m.ipmi.Serve(context.WithoutCancel(ctx)) }() // ends with Close
	return nil
}

// settle is the time for QEMU to end.
const settle = 10 * time.Second
