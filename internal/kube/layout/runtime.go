package layout

import (
	"path"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/machine"
)

// Paths on machines.
const (
	binDir        = "/usr/local/bin"
	cniBinDir     = "/opt/cni/bin"
	cniConfDir    = "/etc/cni/net.d"
	containerdDir = "/etc/containerd"
	certsD        = containerdDir + "/certs.d"
	criSocket     = "unix:///run/containerd/containerd.sock"
)

const containerdUnit = `[Unit]
Description=containerd container runtime
Documentation=https://containerd.io
After=network.target local-fs.target dbus.service
RequiresMountsFor=/var/lib/containerd

[Service]
Type=notify
ExecStart=/usr/local/bin/containerd
Environment=PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
Delegate=yes
KillMode=process
Restart=always
RestartSec=2
LimitNPROC=infinity
LimitCORE=infinity
LimitNOFILE=1048576
TasksMax=infinity
OOMScoreAdjust=-999

[Install]
WantedBy=multi-user.target
`

// Runtime renders the configuration of a node before it belongs to a cluster: container runtime, executables, images of the role, the pod network's
// plugins and an unconfigured kubelet. An ordinary `kubeadm join` works on such a machine.
func (p Params) Runtime(n Node, role string) (machine.Config, error) {
	wants, err := p.of(n).wants()
	if err != nil {
		return machine.Config{}, err
	}
	c := machine.Config{
		Directories: []machine.Directory{
			{Path: "/etc/kubernetes/manifests", Mode: 0o755},
			{Path: certsD, Mode: 0o755},
			{Path: cniConfDir, Mode: 0o755},
			{Path: cniBinDir, Mode: 0o755},
		},
		Packages: wants.Packages,
		Modules:  []string{"overlay", "br_netfilter"},
		Sysctls: map[string]string{
			"net.ipv4.ip_forward":                "1",
			"net.bridge.bridge-nf-call-iptables": "1",
		},
	}
	if p.protectsKernel(n) {
		for key, value := range kubeletSysctls() {
			c.Sysctls[key] = value
		}
	}
	for _, add := range []func(*machine.Config) error{
		p.of(n).addBinaries,
		func(c *machine.Config) error {
			p.of(n).addImages(c, role)
			if role == roleWorker { // that may stay behind: the cluster decides what runs on all nodes
				p.Release.addImages(c, role)
			}
			p.addAhead(c, n, role)
			return nil
		},
		func(c *machine.Config) error { return p.addContainerd(c, n) },
	} {
		if err := add(&c); err != nil {
			return machine.Config{}, err
		}
	}
	if p.CNI == CNIFlannel {
		c.Files = append(c.Files, machine.File{Path: FlannelConflistPath, Mode: 0o600, Content: []byte(FlannelConflist())})
	}
	c.Units = append(c.Units, kubeletUnit())
	return c, nil
}

func (r Release) addBinaries(c *machine.Config) error {
	names := []string{"containerd", "containerd-shim-runc-v2", "ctr", "kubeadm", "kubectl", "kubelet"}
	for _, b := range r.Bundle.Binaries {
		if strings.HasPrefix(b.Name, "cni/") {
			names = append(names, b.Name)
		}
	}
	for _, name := range names {
		b, err := r.binary(name)
		if err != nil {
			return err
		}
		at := path.Join(binDir, name)
		if plugin, ok := strings.CutPrefix(name, "cni/"); ok {
			at = path.Join(cniBinDir, plugin)
		}
		c.Binaries = append(c.Binaries, machine.Binary{Path: at, Digest: b.Digest, Size: b.Size})
	}
	return nil
}

// addImages adds the release's images of a role, except images whose references are already present.
func (r Release) addImages(c *machine.Config, role string) {
	for _, i := range r.Bundle.Images {
		known := slices.ContainsFunc(c.Images, func(o machine.Image) bool { return slices.Contains(o.Refs, i.Ref) })
		if slices.Contains(i.Roles, role) && !known {
			c.Images = append(c.Images, machine.Image{Refs: []string{i.Ref}, Digest: i.Archive.Digest, Size: i.Archive.Size, ID: i.ID})
		}
	}
}

// AheadDir has a release's programs before their use, so that the later switch changes only links.
const AheadDir = machine.StateDir + "/ahead"

// addAhead adds the files that a machine holds in advance.
func (p Params) addAhead(c *machine.Config, n Node, role string) {
	if p.Ahead.Version == "" || p.Ahead.Version == p.of(n).Version {
		return
	}
	p.Ahead.addImages(c, role)
	c.Directories = append(c.Directories, machine.Directory{Path: AheadDir, Mode: 0o755})
	for _, used := range slices.Clone(c.Binaries) {
		name := path.Base(used.Path)
		if path.Dir(used.Path) == cniBinDir {
			name = "cni/" + name
		}
		if b, err := p.Ahead.binary(name); err == nil && b.Digest != used.Digest {
			c.Binaries = append(c.Binaries, machine.Binary{Path: path.Join(AheadDir, path.Base(name)), Digest: b.Digest, Size: b.Size})
		}
	}
}

func (p Params) addContainerd(c *machine.Config, n Node) error {
	config, err := p.containerdConfig(n)
	if err != nil {
		return err
	}
	c.Files = append(c.Files, text(containerdDir+"/config.toml", config))
	c.Units = append(c.Units, machine.Unit{
		Name: "containerd.service", Content: containerdUnit, Enabled: true, Active: true,
		// containerd reads the registries' files at every pull.
		Watches: []string{containerdDir + "/config.toml", binDir + "/containerd", authoritiesDir},
	})
	return nil
}
