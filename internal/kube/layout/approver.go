package layout

import (
	"context"
	_ "embed" // for the approver's rights
	"encoding/json"
	"fmt"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/pki"
)

const (
	approverConf = kubernetesDir + "/naupegos-approver.conf"
	machinesPath = kubernetesDir + "/naupegos-machines.json"
)

//go:embed manifests/approver.yaml
var approverManifest []byte

// ApproverManifest returns the manifest with the permissions of the service that approves kubelets' serving certificates.
func ApproverManifest() []byte { return append([]byte(nil), approverManifest...) }

// approverLayer renders the service on control-plane machines that approves kubelets' serving certificates, after a check
// against the machines' known addresses.
func (p Params) approverLayer(ctx context.Context, k *pki.PKI, n Node) (machine.Config, error) {
	if p.Unattended || p.ExternalCA {
		return machine.Config{Machine: n.Name}, nil
	}
	const user = "naupegos:approver"
	ca, err := k.CABundle(ctx, pki.KubernetesCA)
	if err != nil {
		return machine.Config{}, err
	}
	cert, err := k.Leaf(ctx, pki.LeafSpec{Name: n.Name + "/approver", Authority: pki.KubernetesCA, CommonName: user, Client: true})
	if err != nil {
		return machine.Config{}, err
	}
	conf, err := p.kubeconfig("https://"+hostPort(n.Address, APIServerPort), user, ca, pairCredentials(cert))
	if err != nil {
		return machine.Config{}, err
	}
	machines, err := json.MarshalIndent(map[string]any{"nodes": p.Machines}, "", "  ")
	if err != nil {
		return machine.Config{}, fail.Wrap(fail.Internal, err, "render %s", machinesPath)
	}
	return machine.Config{
		Files: []machine.File{
			private(approverConf, conf),
			text(machinesPath, string(machines)+"\n"),
		},
		Units: []machine.Unit{{
			Name: "naupegos-approver.service", Enabled: true, Active: true,
			Content: fmt.Sprintf(approverUnit, p.AgentPath, approverConf, machinesPath),
			Watches: []string{approverConf}, // the service rereads the machines' file when it changes
		}},
	}, nil
}

const approverUnit = `[Unit]
Description=Approves kubelets' serving certificates after a check of the machine
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=0

[Service]
ExecStart=%s approver --kubeconfig %s --machines %s
Restart=always
RestartSec=2
NoNewPrivileges=yes
PrivateTmp=yes
ProtectHome=yes
ProtectSystem=full

[Install]
WantedBy=multi-user.target
`
