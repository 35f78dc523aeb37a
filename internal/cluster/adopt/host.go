package adopt

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/kube/layout"
	"github.com/naupegos/naupegos/internal/machine"
)

// Paths on hosts.
const (
	manifestDir     = "/etc/kubernetes/manifests/"
	pkiDir          = "/etc/kubernetes/pki/"
	kubeletConfig   = "/var/lib/kubelet/config.yaml"
	kubeletFlags    = "/var/lib/kubelet/kubeadm-flags.env"
	encryptionFlag  = "encryption-provider-config"
	auditPolicyFlag = "audit-policy-file"
)

// components are the static pods that kubeadm makes.
func components() []string {
	return []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"}
}

// flags returns a component's flags.
func (h Host) flags(component string) map[string]string {
	c, ok := h.server(component)
	if !ok {
		return nil
	}
	return argsOf(slices.Concat(c.Command, c.Args))
}

// argsOf reads "--name=value" and "--name value". A flag that is given several times has all its values.
func argsOf(args []string) map[string]string {
	out := map[string]string{}
	for i, a := range args {
		name, isFlag := strings.CutPrefix(a, "--")
		if !isFlag {
			continue
		}
		name, value, has := strings.Cut(name, "=")
		if !has {
			value = "true"
			if i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
				value = args[i+1]
			}
		}
		if value == "True" || value == "False" { // as Ansible's templates write them
			value = strings.ToLower(value)
		}
		if was, twice := out[name]; twice {
			value = was + "," + value
		}
		out[name] = value
	}
	return out
}

func envFlags(file string) map[string]string {
	_, value, _ := strings.Cut(strings.TrimSpace(file), "=")
	return argsOf(strings.Fields(strings.Trim(value, `"'`)))
}

// isControlPlane reports whether the host has an API server as a static pod.
func (h Host) isControlPlane() bool { _, ok := h.server("kube-apiserver"); return ok }

// owner returns the host's owner according to an agent's state on it: the machine's name, and the ID of the cluster that it was adopted with.
func (h Host) owner() (machineName, adopted string, known bool) {
	var st struct {
		Machine string
		Adopted string
		Units   map[string]any
	}
	data, there := h.Files[machine.StateKey]
	if !there || json.Unmarshal(data, &st) != nil {
		return "", "", there
	}
	return st.Machine, st.Adopted, len(st.Units) > 0
}

// node is the host as layout renders it.
func (h Host) node() layout.Node {
	n := layout.Node{Name: h.Name, Address: h.Address}
	n.Facts.Hostname, n.Facts.Container, n.Facts.CgroupVersion = h.Facts["hostname"], h.Facts["container"] != "", 1
	if h.Facts["cgroup"] == "cgroup2fs" {
		n.Facts.CgroupVersion = 2
	}
	if h.Facts["stub"] == "yes" {
		n.ResolvConf = "/run/systemd/resolve/resolv.conf"
	}
	return n
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
