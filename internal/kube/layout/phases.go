package layout

// KubeadmConfigPath is the path of a control-plane machine's own kubeadm configuration.
const KubeadmConfigPath = kubernetesDir + "/naupegos-kubeadm.yaml"

// Phase is one of kubeadm's phases, to be run as root on a control-plane machine. All of them may be repeated.
type Phase struct {
	Name            string   // for people: "record the configuration"
	Argv            []string // the command with its arguments
	NeedsConfigPath string   // the file it reads; ControlPlane has put it there
	Spreads         bool     // it starts pods that should not all run on one node: there should be several by then
	// Manifests turns the objects that the phase only prints into those to apply; nil if kubeadm applies them itself.
	Manifests func(printed []byte) ([]byte, error)
}

// Phases returns the phases that record the cluster once its API answers, so that other people's tools see an ordinary kubeadm
// cluster. They run on the first control-plane machine only: the first phase uses super-admin.conf to bind the
// kubeadm:cluster-admins group that admin.conf and AdminKubeconfig belong to, so it must succeed before the others start;
// the others may run side by side.
//
// Left out on purpose: upload-certs (machines that join get theirs from us), kubelet-finalize (kubelet.conf points to the
// rotating certificate from the start, and the phase would restart the kubelet) and a token that lets machines join.
func Phases() []Phase {
	dns := phase("install CoreDNS", "addon", "coredns")
	dns.Spreads = true
	return []Phase{
		phase("record the configuration", "upload-config", "all"),
		InstallProxy(),
		dns,
		TellJoiners(),
	}
}

// TellJoiners returns the one of Phases that publishes, for machines that join with a token, the API's address and the authority to trust.
func TellJoiners() Phase {
	return phase("let machines join with a token", "bootstrap-token", "--skip-token-print")
}

// InstallProxy returns the one of Phases that installs kube-proxy.
func InstallProxy() Phase {
	p := phase("install kube-proxy", "addon", "kube-proxy", "--print-manifest")
	p.Manifests = withConnectionEnv // there are no patches for it
	return p
}

// MarkControlPlane returns the phase that gives a registered node a control plane's labels and taints. It runs on
// that node's own machine, after the first of Phases.
func MarkControlPlane() Phase { return phase("mark the control plane", "mark-control-plane") }

func phase(name string, args ...string) Phase {
	argv := append([]string{binDir + "/kubeadm", "init", "phase"}, args...)
	return Phase{Name: name, Argv: append(argv, "--config", KubeadmConfigPath), NeedsConfigPath: KubeadmConfigPath}
}
