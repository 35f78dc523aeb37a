package main

import (
	"crypto/x509"
	"encoding/pem"
	"errors"

	"github.com/naupegos/naupegos/internal/plan"
)

// planProgress shortens the signature of a function literal.
type planProgress = plan.Progress

func parseCertificate(b *pem.Block) (*x509.Certificate, error) {
	if b == nil {
		return nil, errors.New("the authority is not PEM")
	}
	return x509.ParseCertificate(b.Bytes)
}

// An expert's kubeadm configuration: the same release, images, endpoint, networks and kube-proxy mode as naupegos' cluster, elliptic-curve keys,
// and eviction limits in bytes instead of percentages of the disk, because the machines share the host's disk with other programs.
const initConfig = `apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
bootstrapTokens: [{token: abcdef.0123456789abcdef, ttl: 24h0m0s}]
certificateKey: "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
localAPIEndpoint: {advertiseAddress: {{.Address}}, bindPort: 6443}
nodeRegistration:
  criSocket: unix:///run/containerd/containerd.sock
  kubeletExtraArgs: [{name: node-ip, value: {{.Address}}}]
  ignorePreflightErrors: [SystemVerification]
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
clusterName: bench
kubernetesVersion: {{.Version}}
imageRepository: {{.Repository}}
controlPlaneEndpoint: {{.VIP}}:6443
encryptionAlgorithm: ECDSA-P256
networking: {podSubnet: 10.244.0.0/16, serviceSubnet: 10.96.0.0/16, dnsDomain: cluster.local}
dns: {imageTag: {{.Tags.coredns}}}
etcd: {local: {imageTag: {{.Tags.etcd}}}}
---
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
evictionHard: {memory.available: 100Mi, nodefs.available: 1Gi, imagefs.available: 1Gi, nodefs.inodesFree: 1%, imagefs.inodesFree: 1%}
imageGCHighThresholdPercent: 100
---
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
conntrack: {maxPerCore: 0, min: null, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
`

const joinConfig = `apiVersion: kubeadm.k8s.io/v1beta4
kind: JoinConfiguration
discovery: {bootstrapToken: {token: abcdef.0123456789abcdef, apiServerEndpoint: "{{.VIP}}:6443", caCertHashes: ["sha256:{{.Hash}}"]}}
nodeRegistration:
  criSocket: unix:///run/containerd/containerd.sock
  kubeletExtraArgs: [{name: node-ip, value: {{.Address}}}]
  ignorePreflightErrors: [SystemVerification]
`

const controlPlaneJoin = `controlPlane:
  localAPIEndpoint: {advertiseAddress: {{.Address}}, bindPort: 6443}
  certificateKey: "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
`
