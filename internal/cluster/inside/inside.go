// Package inside renders the registry inside a cluster: a server on control-plane machines, with the images that it serves.
package inside

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/agent/imageserver"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
)

// Paths on machines.
const (
	AuthorityPath = "/etc/kubernetes/pki/ca.crt"

	dir      = "/etc/naupegos/registry"
	BlobDir  = "/var/lib/naupegos-images"
	unitName = "naupegos-registry.service"

	// containerd keeps the content of the images that it has imported from the bundle here.
	contentDir = machine.ContainerdRoot + "/io.containerd.content.v1.content/blobs/sha256"
)

// Params describe the server of one machine.
type Params struct {
	Agent     string // absolute path of naupegos-agent
	Listen    string // "10.0.0.1:5443"
	Cert, Key []byte // PEM
	Images    []imageserver.Image
	Blobs     []Blob // files of the images that containerd lacks
}

// Blob is a file of an image.
type Blob struct {
	Digest string
	Size   int64
}

// Config renders the server as a layer of a machine's configuration.
func Config(p Params) (machine.Config, error) {
	index, err := json.MarshalIndent(imageserver.Index{Images: p.Images}, "", " ")
	if err != nil {
		return machine.Config{}, fail.Wrap(fail.Internal, err, "render the index of images")
	}
	cert, key, indexPath := dir+"/tls.crt", dir+"/tls.key", dir+"/images.json"
	c := machine.Config{
		Files: []machine.File{
			{Path: indexPath, Mode: 0o644, Content: append(index, '\n')},
			{Path: cert, Mode: 0o644, Content: p.Cert},
			{Path: key, Mode: 0o600, Content: p.Key, Secret: true},
		},
		Units: []machine.Unit{{
			Name: unitName, Enabled: true, Active: true,
			Content: fmt.Sprintf(unit, p.Agent, p.Listen, indexPath, BlobDir, contentDir, cert, key, AuthorityPath),
			Watches: []string{cert, key, AuthorityPath}, // the index is read again when it changes
		}},
	}
	slices.SortFunc(p.Blobs, func(a, b Blob) int { return strings.Compare(a.Digest, b.Digest) })
	for _, b := range slices.Compact(p.Blobs) {
		c.Binaries = append(c.Binaries, machine.Binary{Path: BlobDir + "/" + strings.TrimPrefix(b.Digest, "sha256:"), Digest: b.Digest, Size: b.Size})
	}
	return c, nil
}

const unit = `[Unit]
Description=Naupegos: registry of the images of this cluster
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=0

[Service]
ExecStart=%s images --listen %s --index %s --blobs %s --blobs %s --cert %s --key %s --ca %s --group system:nodes --group system:masters --group kubeadm:cluster-admins
Restart=always
RestartSec=2
CapabilityBoundingSet=CAP_DAC_READ_SEARCH
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX

[Install]
WantedBy=multi-user.target
`
