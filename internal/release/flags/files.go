package flags

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// reads lists the flags of static pods and of kubelet whose value names a file that the program reads, without those that Instead refuses.
var reads = map[string][]string{
	APIServer: {"authentication-token-webhook-config-file", "egress-selector-config-file", "peer-ca-file", namedPair, "token-auth-file", "tracing-config-file"},
	ControllerManager: {"cloud-config", "cluster-signing-kube-apiserver-client-cert-file", "cluster-signing-kube-apiserver-client-key-file",
		"cluster-signing-kubelet-client-cert-file", "cluster-signing-kubelet-client-key-file", "cluster-signing-kubelet-serving-cert-file",
		"cluster-signing-kubelet-serving-key-file", "cluster-signing-legacy-unknown-cert-file", "cluster-signing-legacy-unknown-key-file",
		"leader-migration-config", "pv-recycler-pod-template-filepath-hostpath", "pv-recycler-pod-template-filepath-nfs", namedPair},
	Scheduler: {"client-ca-file", "requestheader-client-ca-file", namedPair},
	Kubelet:   {CredentialConfig},
	Etcd:      {"client-cert-file", "client-key-file", "client-crl-file", "discovery-cacert", "discovery-cert", "discovery-key", "peer-client-cert-file", "peer-client-key-file", "peer-crl-file"},
}

// The flags of kubelet for programs that supply credentials of registries. kubelet ignores one without the other.
const (
	CredentialConfig   = "image-credential-provider-config"  //nolint:gosec // a flag
	CredentialPrograms = "image-credential-provider-bin-dir" //nolint:gosec // a flag
)

// Alone reports a flag of kubelet that it ignores without another one.
func Alone(has func(flag string) bool) string {
	for one, other := range map[string]string{CredentialConfig: CredentialPrograms, CredentialPrograms: CredentialConfig} {
		if has(one) && !has(other) {
			return "kubelet ignores " + one + " without " + other
		}
	}
	return ""
}

// namedPair is the flag whose value is CERTIFICATE,KEY or CERTIFICATE,KEY:NAME,…
const namedPair = "tls-sni-cert-key"

// Reads returns the files that a program reads because of a flag's value.
func Reads(program, flag, value string) []string {
	switch {
	case value == "" || !slices.Contains(reads[program], flag):
		return nil
	case flag == namedPair:
		pair, _, _ := strings.Cut(value, ":")
		return strings.Split(pair, ",")
	}
	return []string{value}
}

// Unseen reports why a program does not see the files that a flag's value names, and what to do; empty if it sees them. All but kubelet run in pods, which see
// only what is mounted: dirs, which hold files of the document, and kubeadm's. With etcdOutside, etcd runs in no pod.
func Unseen(program, flag, value string, dirs map[string]bool, etcdOutside bool) (problem, hint string) {
	files := Reads(program, flag, value)
	if flag == namedPair && len(files) == 1 {
		return fmt.Sprintf("expected a certificate and its key, got %q", value), "as /etc/sni/tls.crt,/etc/sni/tls.key:api.example.org"
	}
	for _, file := range files {
		own := path.Join("/etc", program, path.Base(file))
		switch {
		case !path.IsAbs(file) || path.Clean(file) != file:
			return fmt.Sprintf("%q is not an absolute path", file), "as " + own
		case sees(program, file) || program == Etcd && etcdOutside || program == Kubelet:
		case program == Etcd:
			return fmt.Sprintf("the pod of etcd does not see %q", file), "it sees kubeadm's files in /etc/kubernetes/pki/etcd; with spec.etcd.mode service, etcd sees the machine's files"
		case !dirs[path.Dir(file)]:
			return fmt.Sprintf("the pod of %s does not see %q", program, file), "list the file under spec.controlPlane.machines.files, as " + own + ": the directory of such a file is mounted"
		case !mountable(file):
			return fmt.Sprintf("the pod of %s does not see %q, for its directory holds more than such files", program, file), "put it into a directory of its own, as " + own
		}
	}
	return "", ""
}

// Reloads reports whether a program reads a flag's files again by itself when they change.
func Reloads(flag string) bool { return flag == namedPair }

// Directories that the static pods of kubeadm's layout mount: certificates of the cluster, and authorities of the machine.
const pki = "/etc/kubernetes/pki/"

var authorities = []string{"/etc/ssl/certs/", "/etc/ca-certificates/", "/usr/local/share/ca-certificates/", "/usr/share/ca-certificates/"}

// pkiFiles lists the files of every control-plane machine that a program's pod sees.
var pkiFiles = map[string][]string{
	APIServer: {"ca.crt", "front-proxy-ca.crt", "etcd/ca.crt", "sa.pub", "apiserver.crt", "apiserver.key", "apiserver-kubelet-client.crt", "apiserver-kubelet-client.key",
		"apiserver-etcd-client.crt", "apiserver-etcd-client.key", "front-proxy-client.crt", "front-proxy-client.key"},
	ControllerManager: {"ca.crt", "ca.key", "front-proxy-ca.crt", "sa.pub", "sa.key"},
	Etcd:              {"etcd/ca.crt", "etcd/server.crt", "etcd/server.key", "etcd/peer.crt", "etcd/peer.key"},
}

// sees reports whether the static pod of a program has a file without a mount of its own: one of kubeadm's, or an authority of the machine.
func sees(program, file string) bool {
	if name, ok := strings.CutPrefix(file, pki); ok {
		return slices.Contains(pkiFiles[program], name)
	}
	return (program == APIServer || program == ControllerManager) && slices.ContainsFunc(authorities, func(dir string) bool { return strings.HasPrefix(file, dir) })
}

// system lists directories of the machine whose mount would hide a container's own programs and files; shared lists directories that hold far more than one
// program's files.
var (
	system = []string{"/bin", "/sbin", "/lib", "/lib64", "/boot", "/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib64", "/usr/local/bin", "/usr/local/sbin", "/usr/local/lib"}
	shared = []string{"/usr/local", "/usr/share", "/usr/local/share", "/var/lib", "/var/log", "/var/cache", "/var/spool", "/etc/default", "/etc/systemd", "/root/.ssh"}
)

// mountable reports whether the directory of a file can be mounted into a static pod.
func mountable(file string) bool {
	dir := path.Dir(file)
	within := func(d string) bool { return dir == d || strings.HasPrefix(dir, d+"/") }
	return strings.Count(dir, "/") >= 2 && !slices.Contains(shared, dir) && !slices.ContainsFunc(system, within)
}
