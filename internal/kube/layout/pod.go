package layout

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/naupegos/naupegos/internal/machine"
)

// filesAnnotation holds a digest of the files that a static pod reads at its start: if they change, the manifest changes, and kubelet restarts just
// that pod.
const filesAnnotation = "naupegos.dev/files"

// staticPod has the differences between kubeadm's static pods.
type staticPod struct {
	name        string
	image       string
	args        []string
	annotations map[string]string
	requests    corev1.ResourceList
	port        int32
	scheme      corev1.URIScheme
	host        string // for the probes
	live        string // paths of probes; empty for none
	ready       string
	startup     string
	mounts      []hostMount // in mount order
	uses        []machine.File
}

// manifest renders kubeadm's file of the pod, with the digest of the files that it uses.
func (s staticPod) manifest() (machine.File, error) {
	pod := corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name: s.name, Namespace: metav1.NamespaceSystem,
			Labels:      map[string]string{"component": s.name, "tier": "control-plane"},
			Annotations: map[string]string{filesAnnotation: digest(s.uses)},
		},
		Spec: corev1.PodSpec{
			Containers:        []corev1.Container{s.container()},
			HostNetwork:       true,
			Priority:          ptr(int32(2000001000)),
			PriorityClassName: "system-node-critical",
			SecurityContext:   &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
		},
	}
	for key, value := range s.annotations {
		pod.Annotations[key] = value
	}
	for _, m := range sortedMounts(s.mounts) {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{
			Name: m.Name, VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: m.HostPath, Type: ptr(m.PathType)}},
		})
	}
	data, err := marshal(pod)
	return machine.File{Path: manifestOf(s.name), Mode: 0o600, Content: data}, err
}

func manifestOf(program string) string { return path.Join(kubernetesDir, "manifests", program+".yaml") }

// StaticPods lists the programs that kubelet starts from files on a control-plane machine, and these files.
func (p Params) StaticPods() map[string]string {
	out := map[string]string{}
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
		if name != "etcd" || p.EtcdMode == EtcdStacked {
			out[name] = manifestOf(name)
		}
	}
	return out
}

func (s staticPod) container() corev1.Container {
	c := corev1.Container{
		Name: s.name, Image: s.image, ImagePullPolicy: corev1.PullIfNotPresent,
		Command:   append([]string{s.name}, s.args...),
		Resources: corev1.ResourceRequirements{Requests: s.requests},
		Ports:     []corev1.ContainerPort{{Name: "probe-port", ContainerPort: s.port, Protocol: corev1.ProtocolTCP}},
		// kubeadm's values.
		LivenessProbe:  s.probe(s.live, 10, 8, 10),
		ReadinessProbe: s.probe(s.ready, 0, 3, 1),
		StartupProbe:   s.probe(s.startup, 10, 24, 10),
	}
	for _, m := range s.mounts {
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: m.Name, MountPath: m.MountPath, ReadOnly: m.ReadOnly})
	}
	return c
}

func (s staticPod) probe(at string, delay, failures, period int32) *corev1.Probe {
	if at == "" {
		return nil
	}
	return &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
			Host: s.host, Path: at, Port: intstr.FromString("probe-port"), Scheme: s.scheme,
		}},
		InitialDelaySeconds: delay, TimeoutSeconds: 15, FailureThreshold: failures, PeriodSeconds: period,
	}
}

func sortedMounts(mounts []hostMount) []hostMount {
	return slices.SortedFunc(slices.Values(mounts), func(a, b hostMount) int { return strings.Compare(a.Name, b.Name) })
}

// command joins kubeadm's arguments and ours as kubeadm does: first its own, sorted and without overridden ones, then ours.
func command(base, extra []arg) []string {
	base = slices.DeleteFunc(slices.Clone(base), func(b arg) bool {
		return slices.ContainsFunc(extra, func(e arg) bool { return e.Name == b.Name })
	})
	slices.SortStableFunc(base, func(a, b arg) int { return strings.Compare(a.Name, b.Name) })
	var out []string
	for _, a := range append(base, extra...) {
		out = append(out, fmt.Sprintf("--%s=%s", a.Name, a.Value))
	}
	return out
}

// digest returns a digest of the paths and contents of files.
func digest(files []machine.File) string {
	h := sha256.New()
	for _, f := range slices.SortedFunc(slices.Values(files), func(a, b machine.File) int { return strings.Compare(a.Path, b.Path) }) {
		fmt.Fprintf(h, "%s %d\n", f.Path, len(f.Content))
		h.Write(f.Content)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

func cpu(quantity string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(quantity)}
}

func directory(name, at string, readOnly bool) hostMount {
	return hostMount{Name: name, HostPath: at, MountPath: at, ReadOnly: readOnly, PathType: corev1.HostPathDirectoryOrCreate}
}

// caMounts are the machine's root certificates, at their paths on Debian and Ubuntu.
func caMounts() []hostMount {
	return []hostMount{
		directory("ca-certs", "/etc/ssl/certs", true),
		directory("etc-ca-certificates", "/etc/ca-certificates", true),
		directory("usr-local-share-ca-certificates", "/usr/local/share/ca-certificates", true),
		directory("usr-share-ca-certificates", "/usr/share/ca-certificates", true),
	}
}
