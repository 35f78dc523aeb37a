package local

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/local/files"
	"github.com/naupegos/naupegos/internal/provider/local/hostnet"
	"github.com/naupegos/naupegos/internal/provider/local/layers"
)

// createMachine makes a machine's disk. It writes the record first, as an intent, and marks it Created last.
// It removes the remains of an earlier attempt: that machine has never run.
func (p *Provider) createMachine(ctx context.Context, spec provider.MachineSpec, r record, progress plan.Progress) error {
	if err := p.create(ctx, spec, r, progress); err != nil {
		return files.MakeError(err, "make the machine's disk", spec.Name)
	}
	return nil
}

func (p *Provider) create(ctx context.Context, spec provider.MachineSpec, r record, progress plan.Progress) error {
	dir := p.n.machine(spec.Name)
	progress.Status("creating the disk")
	if err := p.wipe(ctx, spec.Name); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	private, public, err := newHostKey(spec.Name)
	if err != nil {
		return err
	}
	r.HostKey = public
	if err := p.layers().Touch(); err != nil {
		return err
	}
	if r.Lower, r.Store, err = p.layers().Lower(); err != nil {
		return err
	}
	if spec.Role == provider.Gateway {
		r.Store = "" // gateways run no containers
	}
	if err := files.WriteVolatileJSON(recordFile(dir), r); err != nil { // if it is lost, the directory alone still marks a half-made machine
		return err
	}
	if err := p.makeDisk(dir, r, spec, private); err != nil {
		return err
	}
	r.Created = true
	return files.WriteJSON(recordFile(dir), r)
}

func (p *Provider) makeDisk(dir string, r record, spec provider.MachineSpec, hostKey []byte) error {
	for _, d := range []string{upperDir(dir), workDir(dir), mountDir(dir), volumeDir(dir, "kubelet"), volumeDir(dir, "etcd")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	if err := os.Chmod(volumeDir(dir, "etcd"), 0o700); err != nil {
		return err
	}
	containerd := volumeDir(dir, "containerd")
	if r.Store == "" {
		if err := os.MkdirAll(containerd, 0o711); err != nil {
			return err
		}
	} else if err := layers.CopyStore(r.Store, containerd); err != nil {
		return fmt.Errorf("copy the image store: %w", err)
	}
	files, err := p.firstFiles(r, spec, hostKey)
	if err != nil {
		return err
	}
	for path, f := range files {
		if err := makeParents(upperDir(dir), r.Lower, filepath.Dir(path)); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(upperDir(dir), path), f.content, f.mode); err != nil {
			return err
		}
	}
	return nil
}

// file is one file put on a machine's disk before its first boot.
type file struct {
	mode    fs.FileMode
	content []byte
}

// firstFiles renders the files that are on a machine's disk before it boots: the seed, host keys, and the machine's identity and name service.
func (p *Provider) firstFiles(r record, spec provider.MachineSpec, hostKey []byte) (map[string]file, error) {
	servers, search, err := hostnet.Resolvers()
	if err != nil {
		return nil, err
	}
	var id [16]byte
	if _, err := rand.Read(id[:]); err != nil {
		return nil, err
	}
	machineID := hex.EncodeToString(id[:])
	instance := r.Cluster + "-" + r.Name + "-" + machineID[:8]
	if p.opts.InstanceID != nil {
		instance = p.opts.InstanceID(spec)
	}
	s, err := renderSeed(r, instance, spec.UserData, p.opts.SSHPublicKeys, servers)
	if err != nil {
		return nil, err
	}
	hosts := fmt.Sprintf("127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n%s %s\n", r.ip(), r.Name)
	files := map[string]file{
		filepath.Join(seedDir, "user-data"):      {0o600, s.userData},
		filepath.Join(seedDir, "meta-data"):      {0o644, s.metaData},
		filepath.Join(seedDir, "network-config"): {0o644, s.networkConfig},
		"etc/machine-id":                         {0o444, []byte(machineID + "\n")},
		"etc/hostname":                           {0o644, []byte(r.Name + "\n")},
		"etc/hosts":                              {0o644, []byte(hosts)},
		"etc/resolv.conf":                        {0o644, hostnet.ResolvConf(servers, search)},
		"etc/ssh/ssh_host_ed25519_key":           {0o600, hostKey},
		"etc/ssh/ssh_host_ed25519_key.pub":       {0o644, []byte(r.HostKey + "\n")},
	}
	if p.opts.CloudImage {
		for path, text := range cloudImageFiles {
			files[path] = file{0o644, []byte(text)}
		}
	}
	return files, nil
}

// makeParents makes the directories of a path in the overlay's upper directory, with their modes in the lower layers: if a directory
// exists in both, the machine sees the upper one's mode.
func makeParents(upper string, lower []string, path string) error {
	done := ""
	for _, part := range strings.Split(path, "/") {
		done = filepath.Join(done, part)
		mode := fs.FileMode(0o755)
		for _, l := range lower {
			if info, err := os.Lstat(filepath.Join(l, done)); err == nil && info.IsDir() {
				mode = info.Mode().Perm()
				break
			}
		}
		err := os.Mkdir(filepath.Join(upper, done), mode)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := os.Chmod(filepath.Join(upper, done), mode); err != nil { // regardless of the umask
			return err
		}
	}
	return nil
}
