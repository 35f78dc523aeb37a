// Command demo shows how a rack becomes a cluster: two emulated machines, one with BIOS and one with UEFI, are switched on by IPMI, boot from a
// naupegos server, are approved, installed, and join a cluster, one as its control plane and one as a worker. It prints where the server's pages
// are, and runs until it is stopped; then all is gone but the directory with the images.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/naupegos/naupegos/internal/registry/bmc"
	"github.com/naupegos/naupegos/internal/tool"
	"github.com/naupegos/naupegos/test/rack"
)

const (
	bridge  = "naurack"
	address = "10.92.0.1"
	web     = "https://" + address + ":8443"
	cluster = "rack"

	// The machines.
	old, modern = "old", "modern"
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

func main() {
	bin, dir := flag.String("naupegos", "bin/naupegos", "the command"), flag.String("dir", "/var/tmp/naupegos-rack", "where disks, images and the server's state lie")
	kubernetes := flag.String("kubernetes", "", "release of the cluster")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, &demo{bin: *bin, dir: *dir}, *kubernetes); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// demo is one run.
type demo struct{ bin, dir string }

func (d *demo) state() string { return filepath.Join(d.dir, "state") }

// naupegos runs the command, and shows what it says.
func (d *demo) naupegos(ctx context.Context, args ...string) error {
	fmt.Println("$ naupegos", strings.Join(args, " "))
	cmd := d.command(ctx, args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}

func (d *demo) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, d.bin, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 30 * time.Second
	cmd.Env = append(os.Environ(), "NAUPEGOS_SERVER="+web, "NAUPEGOS_TOKEN_FILE="+filepath.Join(d.dir, "token"), "NAUPEGOS_SERVER_CA="+filepath.Join(d.state(), "server-ca.crt"))
	return cmd
}

// forget removes what a demo has left that was interrupted: all but images.
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

func run(ctx context.Context, d *demo, kubernetes string) (err error) {
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
	if _, err := net.InterfaceByName(bridge); err == nil { // of a demo that was killed
		if _, err := tool.Run(ctx, nil, "ip", "link", "del", bridge); err != nil {
			return err
		}
	}
	for _, line := range []string{"link add " + bridge + " type bridge forward_delay 0 mcast_snooping 0", "address add " + address + "/24 dev " + bridge, "link set " + bridge + " up"} {
		if _, err := tool.Run(ctx, nil, "ip", strings.Fields(line)...); err != nil {
			return err
		}
	}
	defer func() {
		_, e := tool.Run(context.WithoutCancel(ctx), nil, "ip", "link", "del", bridge)
		err = errors.Join(err, e)
	}()
	end, err := d.serve(ctx, discovery)
	if err != nil {
		return err
	}
	defer end()
	return d.rack(ctx)
}

// serve starts the server, and makes a token for whoever looks at its pages.
func (d *demo) serve(ctx context.Context, discovery string) (end func(), err error) {
	cmd := exec.Command(d.bin, "server", "--state-dir", d.state(), "--listen-http", address+":8080", "--listen-https", address+":8443", "--netboot-interface", bridge,
		"--dhcp", "on", "--dhcp-range", "10.92.0.100-10.92.0.150", "--dhcp-router", address, "--discovery-image", discovery, "--discovery-arg", "naupegos.pause=2s")
	log, err := os.Create(filepath.Join(d.dir, "server.log"))
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for this process, which ends the machines first
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	end = func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		_ = cmd.Wait()
		_ = log.Close()
	}
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
		end()
		return nil, fmt.Errorf("the server does not answer: %w; see %s", err, log.Name())
	}
	out, err := exec.CommandContext(ctx, d.bin, "--state-dir", d.state(), "server", "token", "create", fmt.Sprint("demo-", time.Now().Unix()), "--role", "admin").Output()
	if err == nil {
		err = os.WriteFile(filepath.Join(d.dir, "token"), out, 0o600)
	}
	if err != nil {
		end()
		return nil, err
	}
	fmt.Printf("\nThe pages are at %s/ui/; the token to sign in by is in %s.\n\n", web, filepath.Join(d.dir, "token"))
	return end, nil
}

// apply goes on twice at most where a step has failed: an emulated control plane on a slow host may not answer for minutes.
func (d *demo) apply(ctx context.Context, file string) (err error) {
	for range 3 {
		if err = d.naupegos(ctx, "apply", "-f", file, "--yes"); err == nil || ctx.Err() != nil {
			return err
		}
	}
	return err
}

// rack switches the machines on, and makes a cluster of them.
func (d *demo) rack(ctx context.Context) (err error) {
	const secret = "demo-only"
	password := filepath.Join(d.dir, "bmc-password")
	if err := os.WriteFile(password, []byte(secret), 0o600); err != nil {
		return err
	}
	var all []*rack.Machine
	defer func() {
		for _, m := range all {
			err = errors.Join(err, m.Close())
		}
	}()
	for i, s := range []rack.Spec{{Name: old, MemoryMiB: 2048}, {Name: modern, UEFI: true, CPUs: 2, MemoryMiB: 3072}} {
		s.MAC, s.BMC, s.Password, s.DiskGiB = fmt.Sprintf("52:54:00:92:00:%02x", i+1), fmt.Sprint("127.0.0.1:", 16230+i), secret, 24
		m, err := rack.New(ctx, filepath.Join(d.dir, s.Name), bridge, s)
		if err != nil {
			return err
		}
		all = append(all, m)
		fmt.Printf("%s is switched on by IPMI; its console: %s\n", m.Name, m.ConsoleFile())
		if _, err := (bmc.IPMI{}).Power(ctx, bmc.Access{Address: m.BMC, User: rack.User, Password: []byte(secret)}, "on", bmc.FromNetwork); err != nil {
			return err
		}
	}
	for _, m := range all {
		err := tool.Until(ctx, 2*time.Second, func() (bool, error) { return d.command(ctx, "machine", "show", m.MAC).Run() == nil, nil })
		if err != nil {
			return err
		}
		for _, args := range [][]string{
			{"machine", "approve", m.MAC}, {"machine", "name", m.MAC, m.Name}, {"machine", "bmc", m.MAC, "--address", m.BMC, "--user", rack.User, "--password-file", password},
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
	fmt.Printf("\nFrom two approved machines to a cluster: %v. The pages are at %s/ui/. Ctrl-C switches all off.\n", time.Since(began).Round(time.Second), web)
	<-ctx.Done()
	return d.naupegos(context.WithoutCancel(ctx), "destroy", cluster, "--yes")
}
