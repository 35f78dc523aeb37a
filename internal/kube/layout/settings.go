package layout

import (
	"strings"

	"github.com/naupegos/naupegos/internal/release/flags"
)

// Flags returns the flags of the static pods of a control-plane machine, by component and by name, for comparison with a cluster that
// was not created by Naupegos. It needs no bundle.
func (p Params) Flags(n Node, start EtcdStart) map[string]map[string]string {
	known := tables(p.of(n).Version)
	return map[string]map[string]string{
		"etcd":                    flagsOf(command(etcdBaseArgs(n, start), p.Settings.etcdArgs(p.of(n).Version))),
		"kube-apiserver":          flagsOf(command(p.apiServerBaseArgs(n), p.apiServerExtraArgs(known))),
		"kube-controller-manager": flagsOf(command(p.controllerManagerBaseArgs(pkiDir+"/ca.crt", pkiDir+"/ca.key"), p.controllerManagerExtraArgs(known))),
		"kube-scheduler":          flagsOf(command(schedulerBaseArgs(), p.schedulerExtraArgs(known))),
	}
}

func flagsOf(args []string) map[string]string {
	out := map[string]string{}
	for _, a := range args {
		name, value, _ := strings.Cut(strings.TrimPrefix(a, "--"), "=")
		out[name] = value
	}
	return out
}

// KubeletSettings returns a machine's KubeletConfiguration and the additional arguments of its kubelet, in the form of kubeadm-flags.env. It
// needs no bundle.
func (p Params) KubeletSettings(n Node) (config []byte, flags string, err error) {
	config, err = p.kubeletConfig(n, criSocket)
	return config, p.kubeletFlags(n), err
}

// ProxySettings returns the cluster's KubeProxyConfiguration. It needs no bundle.
func (p Params) ProxySettings() ([]byte, error) {
	wants, err := p.Release.wants()
	if err != nil {
		return nil, err
	}
	return p.Settings.KubeProxy.configured(p.kubeProxyConfig(wants.Configs), flags.KubeProxy, p.Release.Version)
}
