package layout

// KubeadmConfigPath is the path of a control-plane machine's own kubeadm configuration.
const KubeadmConfigPath = kubernetesDir + "/naupegos-kubeadm.yaml"

// Phase is a kubeadm phase, to be run as root on a control-plane machine. Phases may be repeated.
type Phase struct {
	Name            string   // description: "record the configuration"
	Argv            []string // the command with its arguments
	NeedsConfigPath string   // the file that it reads; ControlPlane has written it
	Spreads         bool     // it starts pods that should not all run on one node, so several nodes should exist first
	// Manifests extracts the objects to apply from the output of a phase that only prints them; nil if kubeadm applies them itself.
	Manifests func(printed []byte) ([]byte, error)
}

// Phases returns the phases that record the cluster once its API answers, so that other tools see an ordinary kubeadm cluster. They run on the first
// control-plane machine only: the first phase uses super-admin.conf to bind the kubeadm:cluster-admins group that admin.conf and AdminKubeconfig
// belong to, so it must succeed before the others start; the others may run side by side.
//
// It omits upload-certs (joining machines get their certificates from Naupegos), kubelet-finalize (kubelet.conf points to the rotating certificate
// from the start, and the phase would restart the kubelet) and a join token.
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

// TellJoiners returns the phase of Phases that publishes, for machines that join with a token, the API's address and the authority to trust.
func TellJoiners() Phase {
	return phase("let machines join with a token", "bootstrap-token", "--skip-token-print")
}

// InstallProxy returns the phase of Phases that installs kube-proxy.
func InstallProxy() Phase {
	p := phase("install kube-proxy", "addon", "kube-proxy", "--print-manifest")
	p.Manifests = withConnectionEnv // it has no patches
	return p
}

// MarkControlPlane returns the phase that gives a registered node a control plane's labels and taints. It runs on
// that node's own machine, after the first of Phases.
func MarkControlPlane() Phase { return phase("mark the control plane", "mark-control-plane") }

func phase(name string, args ...string) Phase {
	argv := append([]string{binDir + "/kubeadm", "init", "phase"}, args...)
	return Phase{Name: name, Argv: append(argv, "--config", KubeadmConfigPath), NeedsConfigPath: KubeadmConfigPath}
}
