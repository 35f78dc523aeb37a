// Command demo shows how a rack becomes a cluster: two emulated machines, one with BIOS and one with UEFI, are switched on by IPMI, boot from a
// naupegos server, are approved, installed, and join a cluster, one as its control plane and one as a worker. The demo prints the address of the
// server's pages, and runs until Ctrl-C or SIGTERM. Then it removes everything except its directory, reports that, and ends with status 0.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/naupegos/naupegos/internal/registry/bmc"
	"github.com/naupegos/naupegos/internal/release"
	"github.com/naupegos/naupegos/internal/tool"
	"github.com/naupegos/naupegos/test/rack"
)

const (
	bridge  = "naurack"
	address = "10.92.0.1"
	web     = "https://" + address + ":8443"
	cluster = "rack"

	// The machines, and the address of their BMCs.
	old, modern = "old", "modern"
	controllers = "127.0.0.1"
)

const document = `apiVersion: naupegos.dev/v1alpha1
kind: Cluster
metadata: {name: ` + cluster + `}
spec:
  provider:
    metal:
      pools:
        - {name: control-plane, machines: [` + modern + `]}
        - {name: general, machines: [` + old + `]}
  endpoint: {kind: direct}
  controlPlane: {replicas: 1}
  workers: [{name: general, replicas: 1}]
  timeouts: {connect: 1m, machineBoot: 30m, nodeReady: 30m, step: 45m}
  smokeTest: false
`

// policy allows the BMCs of emulated machines: they listen on this host, where a server otherwise looks for none.
const policy = `apiVersion: naupegos.dev/v1alpha1
kind: ServerPolicy
providers: [metal]
bmcNetworks: [127.0.0.0/8]
`

func main() {
	bin, dir := flag.String("naupegos", "bin/naupegos", "the command"), flag.String("dir", "/var/tmp/naupegos-rack", "where disks, images and the server's state lie")
	kubernetes := flag.String("kubernetes", release.Default, "release of the cluster")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	d := &demo{bin: *bin, dir: *dir, out: os.Stdout}
	if err := d.until(ctx, func(ctx context.Context) error { return d.run(ctx, *kubernetes) }); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// demo is one run of the demo.
type demo struct {
	bin, dir string
	out      io.Writer
	standing []standing
}

// standing is a resource that the demo has created and must remove.
type standing struct {
	name, gone string // gone says what becomes of it: "removed"
	remove     func() error
}

func (d *demo) stands(name, gone string, remove func() error) {
	d.standing = append(d.standing, standing{name, gone, remove})
}

// until calls run, then removes all resources, the last first. A request to stop is no failure, whatever it interrupts; a failed removal is a
// failure.
func (d *demo) until(ctx context.Context, run func(context.Context) error) error {
	err := run(ctx)
	if ctx.Err() != nil {
		err = nil
		fmt.Fprintln(d.out, "\nStopping.")
	}
	for _, s := range slices.Backward(d.standing) {
		if failed := s.remove(); failed != nil {
			err = errors.Join(err, fmt.Errorf("%s could not be %s: %w", s.name, s.gone, failed))
			continue
		}
		fmt.Fprintf(d.out, "  %s: %s\n", s.name, s.gone)
	}
	fmt.Fprintf(d.out, "Images, disks and logs stay in %s; the next demo uses the images again.\n", d.dir)
	return err
}

func (d *demo) state() string { return filepath.Join(d.dir, "state") }

// naupegos runs the command, and shows its output.
func (d *demo) naupegos(ctx context.Context, args ...string) error {
	fmt.Fprintln(d.out, "$ naupegos", strings.Join(args, " "))
	cmd := d.command(ctx, args...)
	cmd.Stdout, cmd.Stderr = d.out, os.Stderr
	return cmd.Run()
}

func (d *demo) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, d.bin, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for this process, which passes it on once: a second one would prevent the removal of images
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 30 * time.Second
	cmd.Env = append(os.Environ(), "NAUPEGOS_SERVER="+web, "NAUPEGOS_TOKEN_FILE="+filepath.Join(d.dir, "token"), "NAUPEGOS_SERVER_CA="+filepath.Join(d.state(), "server-ca.crt"))
	return cmd
}

// forget removes the resources of an interrupted demo, except images.
func (d *demo) forget() error {
	left, err := filepath.Glob(filepath.Join(d.state(), "*"))
	if err != nil {
		return err
	}
	for _, path := range append(left, filepath.Join(d.dir, old), filepath.Join(d.dir, modern)) {
		if path == filepath.Join(d.state(), "boot") {
			continue
		}
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return os.MkdirAll(d.state(), 0o700)
}

func (d *demo) run(ctx context.Context, kubernetes string) error {
	if err := d.forget(); err != nil {
		return err
	}
	discovery := filepath.Join(d.dir, "discovery")
	if err := d.naupegos(ctx, "image", "discovery", "--virtual", "--dir", discovery); err != nil {
		return err
	}
	if err := d.naupegos(ctx, "--state-dir", d.state(), "image", "system", "--virtual", "--kubernetes", kubernetes); err != nil {
		return err
	}
	if err := removeBridge(ctx); err != nil { // of a killed demo
		return err
	}
	d.stands("bridge "+bridge, "removed", func() error { return removeBridge(context.WithoutCancel(ctx)) })
	for _, line := range []string{"link add " + bridge + " type bridge forward_delay 0 mcast_snooping 0", "address add " + address + "/24 dev " + bridge, "link set " + bridge + " up"} {
		if _, err := tool.Run(ctx, nil, "ip", strings.Fields(line)...); err != nil {
			return err
		}
	}
	if err := d.serve(ctx, discovery); err != nil {
		return err
	}
	return d.rack(ctx)
}

func removeBridge(ctx context.Context) error {
	if _, err := net.InterfaceByName(bridge); err != nil {
		return nil //nolint:nilerr // it is not there
	}
	_, err := tool.Run(ctx, nil, "ip", "link", "del", bridge)
	return err
}

// server writes the server's policy, and returns the command of the server.
func (d *demo) server(discovery string) (*exec.Cmd, error) {
	file := filepath.Join(d.dir, "policy.yaml")
	return exec.Command(d.bin, "server", "--state-dir", d.state(), "--listen-http", address+":8080", "--listen-https", address+":8443", "--netboot-interface", bridge,
		"--dhcp", "on", "--dhcp-range", "10.92.0.100-10.92.0.150", "--dhcp-router", address, "--discovery-image", discovery, "--discovery-arg", "naupegos.pause=2s",
		"--policy", file), os.WriteFile(file, []byte(policy), 0o600)
}

// serve starts the server, and creates a token for its pages.
func (d *demo) serve(ctx context.Context, discovery string) error {
	cmd, err := d.server(discovery)
	if err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(d.dir, "server.log"))
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for this process, which ends the machines first
	if err := cmd.Start(); err != nil {
		return errors.Join(err, log.Close())
	}
	d.stands("server", "stopped", func() error {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		_ = cmd.Wait()
		return log.Close()
	})
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err = tool.Until(ctx, 200*time.Millisecond, func() (bool, error) {
		res, err := http.Get("http://" + address + ":8080/healthz")
		if err != nil {
			return false, nil //nolint:nilerr // it starts
		}
		return res.StatusCode == http.StatusOK, res.Body.Close()
	})
	if err != nil {
		return fmt.Errorf("the server does not answer: %w; see %s", err, log.Name())
	}
	out, err := exec.CommandContext(ctx, d.bin, "--state-dir", d.state(), "server", "token", "create", fmt.Sprint("demo-", time.Now().Unix()), "--role", "admin").Output()
	if err == nil {
		err = os.WriteFile(filepath.Join(d.dir, "token"), out, 0o600)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(d.out, "\nThe pages are at %s/ui/; the token to sign in by is in %s.\n\n", web, filepath.Join(d.dir, "token"))
	return nil
}

// apply tries at most twice more after a failed step, because an emulated control plane on a slow host may not answer for minutes.
func (d *demo) apply(ctx context.Context, file string) (err error) {
	for range 3 {
		if err = d.naupegos(ctx, "apply", "-f", file, "--yes"); err == nil || ctx.Err() != nil {
			return err
		}
	}
	return err
}

// rack switches the machines on, and makes a cluster of them.
func (d *demo) rack(ctx context.Context) error {
	const secret = "demo-only"
	password := filepath.Join(d.dir, "bmc-password")
	if err := os.WriteFile(password, []byte(secret), 0o600); err != nil {
		return err
	}
	var all []*rack.Machine
	for i, s := range []rack.Spec{{Name: old, MemoryMiB: 2048}, {Name: modern, UEFI: true, CPUs: 2, MemoryMiB: 3072}} {
		s.MAC, s.BMC, s.Password, s.DiskGiB = fmt.Sprintf("52:54:00:92:00:%02x", i+1), fmt.Sprint(controllers, ":", 16230+i), secret, 24
		m, err := rack.New(ctx, filepath.Join(d.dir, s.Name), bridge, s)
		if err != nil {
			return err
		}
		all = append(all, m)
		d.stands("machine "+m.Name, "powered off", m.Close)
		fmt.Fprintf(d.out, "%s is powered on by IPMI; its console: %s\n", m.Name, m.ConsoleFile())
		if _, err := (bmc.IPMI{}).Power(ctx, bmc.Access{Address: m.BMC, User: rack.User, Password: []byte(secret)}, "on", bmc.FromNetwork); err != nil {
			return err
		}
	}
	for _, m := range all {
		var shown struct{ Asks string } // the key needs no comparison: this demo is alone on its network
		err := tool.Until(ctx, 2*time.Second, func() (bool, error) {
			out, err := d.command(ctx, "machine", "show", m.MAC, "-o", "json").Output()
			return err == nil && json.Unmarshal(out, &shown) == nil && shown.Asks != "", nil
		})
		if err != nil {
			return err
		}
		for _, args := range [][]string{
			{"machine", "approve", m.MAC, "--key", shown.Asks}, {"machine", "name", m.MAC, m.Name}, {"machine", "bmc", m.MAC, "--address", m.BMC, "--user", rack.User, "--password-file", password},
		} {
			if err := d.naupegos(ctx, args...); err != nil {
				return err
			}
		}
	}
	file := filepath.Join(d.dir, "cluster.yaml")
	if err := os.WriteFile(file, []byte(document), 0o600); err != nil {
		return err
	}
	began := time.Now()
	if err := d.apply(ctx, file); err != nil {
		return err
	}
	for _, args := range [][]string{{"node", "list", cluster}, {"machine", "list"}} {
		if err := d.naupegos(ctx, args...); err != nil {
			return err
		}
	}
	d.stands("cluster "+cluster, "destroyed", func() error {
		ctx, stop := signal.NotifyContext(context.WithoutCancel(ctx), os.Interrupt, syscall.SIGTERM) // another Ctrl-C skips everything except switching the machines off
		defer stop()
		return d.naupegos(ctx, "destroy", cluster, "--yes")
	})
	fmt.Fprintf(d.out, "\nFrom two approved machines to a cluster: %v. The pages are at %s/ui/. Ctrl-C removes all.\n", time.Since(began).Round(time.Second), web)
	<-ctx.Done()
	return nil
}
