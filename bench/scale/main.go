// Command scale measures how `naupegos plan` of a cluster without changes grows with the number of its machines: wall time, CPU time and peak memory
// of the program with 10, 100 and 500 machines.
//
// Real are the program, etcd, the API server, one sshd process per login, and naupegos-agent on each machine. A machine is a root directory with an
// address, host key, machine ID, kernel settings and agent state of its own, one of up to 20 in a network namespace. `naupegos apply` brings the cluster
// up, as on other hosts. Not real are, on each machine, systemd, containerd and kubelet: a script stands in for systemctl, this command lists images, nothing runs in the
// units (but the packet filter's rules are loaded), and this command starts the control plane's static pods and registers the nodes.
//
// Everything is in namespaces and on a file system of a child process, and ends with it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// inside marks the child process, which runs in its own namespaces; its value is the directory for the machines.
const inside = "NAUPEGOS_BENCH_SCALE"

type options struct {
	sizes    string
	runs     int
	naupegos string
}

// init keeps the first goroutine on the first thread: the child ends with the thread that has started it (see Pdeathsig), and the links that ip moves to "netns 1" reach the network
// of the child's first thread, which must not be the one that enters another namespace.
func init() { runtime.LockOSThread() }

func main() {
	var o options
	flag.StringVar(&o.sizes, "machines", "10,100,500", "numbers of machines, each a cluster")
	flag.IntVar(&o.runs, "runs", 3, "plans of each cluster; the median counts")
	flag.StringVar(&o.naupegos, "naupegos", "bin/naupegos", "the program to measure; naupegos-agent lies beside it")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	run := outside
	if os.Getenv(inside) != "" {
		run = measure
	}
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench-scale:", err)
		os.Exit(1)
	}
}

// outside runs one child per number of machines. The kernel removes the namespaces, with all processes, links and mounts, when the child ends.
func outside(ctx context.Context, o options) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for size := range strings.SplitSeq(o.sizes, ",") {
		if n, err := strconv.Atoi(size); err != nil || n < 2 || n > 1000 {
			return fmt.Errorf("-machines %s: %q is not a number from 2 to 1000", o.sizes, size)
		}
	}
	if o.naupegos, err = filepath.Abs(o.naupegos); err != nil {
		return err
	}
	fmt.Println(head)
	for size := range strings.SplitSeq(o.sizes, ",") {
		if err := child(ctx, self, o, size); err != nil {
			return fmt.Errorf("%s machines: %w", size, err)
		}
	}
	return nil
}

func child(ctx context.Context, self string, o options, size string) (err error) {
	dir, err := os.MkdirTemp("", "naupegos-scale-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(dir)) }() // it is empty outside of the namespaces
	cmd := exec.CommandContext(ctx, self, "-machines", size, "-runs", strconv.Itoa(o.runs), "-naupegos", o.naupegos)
	cmd.Env = append(os.Environ(), inside+"="+dir)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
		Pdeathsig:  syscall.SIGKILL,
		Setpgid:    true, // Ctrl-C is for the parent, which kills the first process of the namespace, and the kernel all others
	}
	if err := cmd.Run(); ctx.Err() == nil {
		return err
	}
	return context.Cause(ctx)
}
