package layout

import "strings"

// Flags returns the flags of the static pods of a control-plane machine, by component and by name, for comparison with a cluster that somebody
// else started. It needs no bundle.
func (p Params) Flags(n Node, start EtcdStart) map[string]map[string]string {
	return map[string]map[string]string{
		"etcd":                    flagsOf(command(etcdBaseArgs(n, start), etcdExtraArgs())),
		"kube-apiserver":          flagsOf(command(p.apiServerBaseArgs(n), p.apiServerExtraArgs())),
		"kube-controller-manager": flagsOf(command(p.controllerManagerBaseArgs(pkiDir+"/ca.crt", pkiDir+"/ca.key"), p.controllerManagerExtraArgs())),
		"kube-scheduler":          flagsOf(command(schedulerBaseArgs(), p.schedulerExtraArgs())),
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
	return marshal(p.kubeProxyConfig(wants.Configs))
}
