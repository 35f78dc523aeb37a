package layout

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/release"
	"github.com/naupegos/naupegos/internal/release/flags"
)

// Paths of the kubeconfigs of the control plane's clients, as in kubeadm.
const (
	controllerManagerConf = kubernetesDir + "/controller-manager.conf"
	schedulerConf         = kubernetesDir + "/scheduler.conf"
)

// usualNodeMask is the controller manager's default of node-cidr-mask-size.
const usualNodeMask = 24

// electArgs make the first election quick: a candidate that is too early retries after half a second instead of two. The length of a lease, on which
// safety depends, is the default (15 s, renewed within 10 s).
func electArgs() []arg { return []arg{{"leader-elect-retry-period", "500ms"}} }

func (p Params) controllerManagerPod(n Node, files fileSet) (machine.File, error) {
	image, err := p.servers(n).image("kube-controller-manager")
	if err != nil {
		return machine.File{}, err
	}
	wants, err := p.servers(n).wants()
	if err != nil {
		return machine.File{}, err
	}
	signer, key := pkiDir+"/ca.crt", pkiDir+"/ca.key"
	switch {
	case p.ExternalCA: // as in kubeadm: nothing is signed here
		signer, key = "", ""
	case len(files.under(signerPath)) > 0:
		signer = signerPath
	}
	return staticPod{
		name: "kube-controller-manager", image: image.Ref, requests: cpu("200m"),
		args: command(append(p.controllerManagerBaseArgs(signer, key), p.emulation()...), p.controllerManagerExtraArgs(p.Servers.tables(p.of(n)))),
		port: 10257, scheme: corev1.URISchemeHTTPS, host: "127.0.0.1", live: "/healthz", startup: "/healthz",
		mounts: sortedMounts(p.Settings.ControllerManager.mounts(controllerManagerMounts(wants))),
		uses: append(files.under(controllerManagerConf, pkiDir+"/ca.", signerPath, pkiDir+"/front-proxy-ca.crt", pkiDir+"/sa.key"),
			p.Settings.ControllerManager.Reads...),
	}.manifest()
}

// controllerManagerBaseArgs returns the arguments that kubeadm gives every controller manager.
func (p Params) controllerManagerBaseArgs(signer, key string) []arg {
	return []arg{
		{"allocate-node-cidrs", "true"},
		{"authentication-kubeconfig", controllerManagerConf},
		{"authorization-kubeconfig", controllerManagerConf},
		{"bind-address", "127.0.0.1"},
		{"client-ca-file", pkiDir + "/ca.crt"},
		{"cluster-cidr", p.PodCIDR},
		{"cluster-name", p.ClusterName},
		{"cluster-signing-cert-file", signer},
		{"cluster-signing-key-file", key},
		{"controllers", "*,bootstrapsigner,tokencleaner"},
		{"kubeconfig", controllerManagerConf},
		{"leader-elect", "true"},
		{"requestheader-client-ca-file", pkiDir + "/front-proxy-ca.crt"},
		{"root-ca-file", pkiDir + "/ca.crt"},
		{"service-account-private-key-file", pkiDir + "/sa.key"},
		{"service-cluster-ip-range", p.ServiceCIDR},
		{"use-service-account-credentials", "true"},
	}
}

// controllerManagerVolumes are the mounts that kubeadm's configuration must name.
func controllerManagerVolumes(p Params, wants release.Minor) []hostMount {
	ours := controllerManagerMounts(wants)
	return p.Settings.ControllerManager.mounts(ours)[len(ours):]
}

// controllerManagerMounts are kubeadm's mounts.
func controllerManagerMounts(wants release.Minor) []hostMount {
	mounts := append(caMounts(), directory("k8s-certs", pkiDir, true), kubeconfigMount(controllerManagerConf))
	if wants.FlexVolumes {
		mounts = append(mounts, directory("flexvolume-dir", "/usr/libexec/kubernetes/kubelet-plugins/volume/exec", false))
	}
	return sortedMounts(mounts)
}

// The controller manager's limits on its own requests. At its start it creates an account for each of its 50 controllers, one after another. With the
// default limits (20 per second, bursts of 30) that takes 5 s, in which nothing else happens. Priority and fairness protect the API server.
func (p Params) controllerManagerExtraArgs(known []flags.Table) []arg {
	args := append(electArgs(), arg{"kube-api-qps", "100"}, arg{"kube-api-burst", "200"})
	if p.NodeCIDRMaskSize != 0 && p.NodeCIDRMaskSize != usualNodeMask {
		args = append(args, arg{"node-cidr-mask-size", strconv.Itoa(p.NodeCIDRMaskSize)})
	}
	if p.Harden {
		args = append(args, arg{"profiling", "false"}, arg{"terminated-pod-gc-threshold", "1000"})
	}
	return p.Settings.ControllerManager.extend(args, flags.ControllerManager, known)
}

func (p Params) schedulerPod(n Node, files fileSet) (machine.File, error) {
	image, err := p.servers(n).image("kube-scheduler")
	if err != nil {
		return machine.File{}, err
	}
	return staticPod{
		name: "kube-scheduler", image: image.Ref, requests: cpu("100m"),
		args: command(append(schedulerBaseArgs(), p.emulation()...), p.schedulerExtraArgs(p.Servers.tables(p.of(n)))),
		port: 10259, scheme: corev1.URISchemeHTTPS, host: "127.0.0.1", live: "/livez", ready: "/readyz", startup: "/livez",
		mounts: append(p.Settings.schedulerMounts(), kubeconfigMount(schedulerConf)),
		uses:   append(files.under(schedulerConf, schedulerConfigPath), p.Settings.Scheduler.Reads...),
	}.manifest()
}

// schedulerBaseArgs returns the arguments that kubeadm gives every scheduler.
func schedulerBaseArgs() []arg {
	return []arg{
		{"authentication-kubeconfig", schedulerConf},
		{"authorization-kubeconfig", schedulerConf},
		{"bind-address", "127.0.0.1"},
		{"kubeconfig", schedulerConf},
		{"leader-elect", "true"},
	}
}

func (p Params) schedulerExtraArgs(known []flags.Table) []arg {
	args := electArgs()
	if p.Harden {
		args = append(args, arg{"profiling", "false"})
	}
	if len(p.Settings.Scheduler.Config) > 0 {
		args = append(args, arg{"config", schedulerConfigPath})
	}
	return p.Settings.Scheduler.extend(args, flags.Scheduler, known)
}

func kubeconfigMount(at string) hostMount {
	return hostMount{Name: "kubeconfig", HostPath: at, MountPath: at, ReadOnly: true, PathType: corev1.HostPathFileOrCreate}
}
