package main

import (
	"fmt"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/provider"
)

// Names and settings of what both sides create.
const (
	clusterName = "bench"
	clusterID   = "bench-be0c4add"
	cidr        = "10.99.0.0/24"
	publicKey   = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILmjga3qzgq/stMnvHV0xGJs3uFFu/SbOx6GOofOvulS bench"
)

// size is the number of machines and their properties.
type size struct {
	controlPlanes, workers int
	flavor, image          string
	volume                 int // GiB of each root volume; 0: the hypervisors provide the root disks
	external               string
}

// document is the cluster document of naupegos' side.
func (s size) document() (*v1alpha1.Cluster, error) {
	workers := ""
	if s.workers > 0 {
		workers = fmt.Sprintf("  workers: [{name: general, replicas: %d}]\n", s.workers)
	}
	return validation.Parse("bench.yaml", fmt.Appendf(nil, `apiVersion: naupegos.dev/v1alpha1
kind: Cluster
metadata: {name: %s}
spec:
  provider:
    openstack:
      cloud: %s
      externalNetwork: %s
      network: {cidr: %s}
      trustOnFirstUse: true
      machine: {flavor: %s, image: %s, rootVolumeGiB: %d}
  endpoint: {kind: octavia}
  controlPlane: {replicas: %d}
%s`, clusterName, cloudName, s.external, cidr, s.flavor, s.image, s.volume, s.controlPlanes, workers))
}

// machines lists the wanted machines with the user-data that naupegos writes for machines in clouds.
func (s size) machines() ([]provider.MachineSpec, error) {
	var list []provider.MachineSpec
	for i := range s.controlPlanes {
		list = append(list, provider.MachineSpec{Name: fmt.Sprintf("%s-cp-%d", clusterName, i+1), Role: provider.ControlPlane, Index: i + 1})
	}
	for i := range s.workers {
		list = append(list, provider.MachineSpec{
			Name: fmt.Sprintf("%s-general-%d", clusterName, i+1), Role: provider.Worker, Pool: "general", Index: i + 1,
		})
	}
	for i := range list {
		var err error
		list[i].UserData, err = machine.UserData{Hostname: list[i].Name, SSHKeys: []string{publicKey}, HostKeysToConsole: true}.Render(machine.KindCloudInit)
		if err != nil {
			return nil, err
		}
	}
	return list, nil
}
