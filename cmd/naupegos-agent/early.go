package main

import (
	"context"
	"crypto/ecdsa"
	"fmt"
	"os"
	"path/filepath"

	"github.com/naupegos/naupegos/internal/agent/boot"
	"github.com/naupegos/naupegos/internal/agent/install"
	"github.com/naupegos/naupegos/internal/registry/facts"
	"github.com/naupegos/naupegos/internal/registry/order"
)

// early handles calls without a verb: as the first process of the discovery image, and as the modprobe that the kernel calls in that image. It
// returns in all other cases.
func early() {
	switch {
	case os.Getpid() == 1 && os.Args[0] == "/init":
		boot.Run(context.Background(), boot.Options{Install: installed, Key: savedKey})
	case filepath.Base(os.Args[0]) == "modprobe":
		if err := boot.Modprobe(os.Args[len(os.Args)-1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// installed installs the machine and returns what the machine does next.
func installed(ctx context.Context, m boot.Machine) (boot.End, error) {
	done, err := install.Machine(ctx, install.Options{UUID: m.Discovery.Boot.UUID, MAC: m.Discovery.Boot.MAC, Server: m.Server, Authority: m.Authority,
		Key: m.Key, Certificate: []byte(m.Certificate), Say: m.Say})
	if err != nil {
		return 0, err
	}
	switch done.Next {
	case order.Kexec:
		return boot.Kexec, nil
	case order.Poweroff:
		return boot.PowerOff, nil
	}
	return boot.Reboot, nil
}

// savedKey returns the key of an earlier or unfinished installation, if a disk contains one.
func savedKey(disks []facts.Disk) *ecdsa.PrivateKey {
	saved, err := install.SavedKey("/sys", disks, "/mnt")
	if err != nil {
		return nil // the machine then creates a new key, which an operator must approve
	}
	return saved
}
