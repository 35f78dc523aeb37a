package rack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/naupegos/naupegos/internal/tool"
)

// power is the power switch of a machine, which is a process that runs while the machine is on.
type power struct {
	start func(disk bool) (*exec.Cmd, *bytes.Buffer)
	boot  func(context.Context) (disk bool, err error) // returns the device for the next boot

	mu    sync.Mutex
	cmd   *exec.Cmd
	ended chan struct{} // closed when the process has ended
}

func (p *power) isOn() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running()
}

// running reports whether the machine is on; one that shuts itself down is off.
func (p *power) running() bool {
	if p.cmd == nil {
		return false
	}
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

func (p *power) set(on bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case on == p.running():
		return nil
	case on:
		return p.begin()
	}
	return p.end()
}

func (p *power) cycle() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running() {
		if err := p.end(); err != nil {
			return err
		}
	}
	return p.begin()
}

func (p *power) begin() error {
	disk, err := p.boot(context.Background())
	if err != nil {
		return err
	}
	cmd, said := p.start(disk)
	exited, ended := make(chan error, 1), make(chan struct{})
	if err := tool.StartLocked(cmd, exited); err != nil {
		return err
	}
	p.cmd, p.ended = cmd, ended
	go func() {
		if err := <-exited; err != nil && said.Len() > 0 {
			fmt.Fprintf(os.Stderr, "rack: %v: %s\n", err, said)
		}
		close(ended)
	}()
	return nil
}

func (p *power) end() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.ended:
		return nil
	case <-time.After(settle):
		return fmt.Errorf("QEMU, process %d, does not end", p.cmd.Process.Pid)
	}
}

// start returns the command that runs the machine. The machine tries the network first, as most do; once it is installed, the server sends it to
// its disk. The process ends with this one.
func (m *Machine) start(disk bool) (*exec.Cmd, *bytes.Buffer) {
	first, second := "1", "2"
	if disk {
		first, second = "2", "1"
	}
	args := []string{
		"-name", m.Name, "-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", fmt.Sprint(m.CPUs), "-m", fmt.Sprint(m.MemoryMiB), "-nodefaults", "-display", "none",
		"-chardev", "file,id=console,append=on,path=" + m.ConsoleFile(), "-serial", "chardev:console", "-monitor", "unix:" + m.monitor() + ",server=on,wait=off",
		"-smbios", "type=1,manufacturer=QEMU,product=rack,serial=S-" + m.Name + ",uuid=" + m.UUID, "-device", "virtio-rng-pci", "-device", "i6300esb", "-action", "watchdog=reset",
		"-drive", "if=none,id=disk,format=raw,cache=unsafe,discard=unmap,file=" + m.disk(),
		"-netdev", "tap,id=net,script=no,downscript=no,ifname=" + m.Tap,
	}
	args = append(args, m.systemDisk(second)...)
	card := "virtio-net-pci,netdev=net,bootindex=" + first + ",mac=" + m.MAC
	if m.UEFI { // the firmware's own PXE, without waiting for IPv6
		card += ",romfile="
		code := "/usr/share/OVMF/OVMF_CODE_4M.fd"
		if m.secure {
			code = "/usr/share/OVMF/OVMF_CODE_4M.secboot.fd"
			args = append(args, "-machine", "smm=on", "-global", "driver=cfi.pflash01,property=secure,value=on")
		}
		args = append(args, "-drive", "if=pflash,format=raw,unit=0,readonly=on,file="+code, "-drive", "if=pflash,format=raw,unit=1,file="+m.variables(),
			"-fw_cfg", "name=opt/org.tianocore/IPv6Support,string=n")
	}
	cmd := exec.Command("qemu-system-x86_64", append(append(args, "-device", card), m.devices()...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true} // Ctrl-C is for this process
	said := &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = said, said
	return cmd, said
}

func (m *Machine) serial() string  { return "DISK-" + m.Name }
func (m *Machine) monitor() string { return filepath.Join(m.dir, "monitor") }

// button presses the machine's power button.
func (m *Machine) button() error {
	c, err := net.DialTimeout("unix", m.monitor(), settle)
	if err != nil {
		return err
	}
	_, err = c.Write([]byte("system_powerdown\n"))
	if err == nil { // QEMU reads the written data before it sees the end
		err = c.(*net.UnixConn).CloseWrite()
	}
	return errors.Join(err, c.Close())
}

// plug creates the link of the machine's network card.
func (m *Machine) plug(ctx context.Context) error {
	if err := m.unplug(); err != nil {
		return err
	}
	for _, line := range []string{"tuntap add " + m.Tap + " mode tap", "link set " + m.Tap + " master " + m.bridge + " up"} {
		if _, err := tool.Run(ctx, nil, "ip", strings.Fields(line)...); err != nil {
			return err
		}
	}
	return nil
}

// unplug removes the link.
func (m *Machine) unplug() error {
	if _, err := os.Stat("/sys/class/net/" + m.Tap); err != nil {
		return nil //nolint:nilerr // it is not there
	}
	_, err := tool.Run(context.Background(), nil, "ip", "link", "del", m.Tap)
	return err
}
