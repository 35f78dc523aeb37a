package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/tool"
)

// plane stands in for kubelet on the control-plane machine: it starts the static pods whose manifests the agent has put there.
type plane struct {
	lab    *lab
	host   *host
	in     *namespace
	bundle *bundle.Bundle
	runs   map[string]*pod
}

type pod struct {
	manifest []byte
	cmd      *exec.Cmd
	ended    chan struct{}
}

// programs are the static pods that this command starts. Without kubelets, a scheduler and controllers would have no work: idle ones stand in for them, because the agent reports a program
// that does not run.
var (
	programs = []string{"etcd", "kube-apiserver"}
	idle     = []string{"kube-controller-manager", "kube-scheduler"}
)

// keep starts the programs, and again when their manifests change, until ctx ends.
func (p *plane) keep(ctx context.Context) error {
	return tool.Until(ctx, 200*time.Millisecond, func() (bool, error) {
		if _, err := os.Stat(p.host.root + "/run/units/kubelet.service"); err != nil {
			return false, nil // kubelet was not started yet
		}
		for _, name := range programs {
			manifest, err := os.ReadFile(filepath.Join(p.host.root, "/etc/kubernetes/manifests", name+".yaml"))
			if err != nil || p.runs[name] != nil && bytes.Equal(manifest, p.runs[name].manifest) && p.runs[name].alive() {
				continue // the agent has not written it yet, or it runs already
			}
			if err := p.start(ctx, name, manifest); err != nil {
				return false, err
			}
		}
		return false, p.standIn()
	})
}

// standIn starts a process with the name of each idle program that the agent has put there.
func (p *plane) standIn() error {
	for _, name := range idle {
		if _, err := os.Stat(filepath.Join(p.host.root, "/etc/kubernetes/manifests", name+".yaml")); err != nil || p.runs[name] != nil {
			continue
		}
		cmd := exec.Command("sleep", "infinity")
		cmd.Args[0] = name
		if err := cmd.Start(); err != nil {
			return fmt.Errorf("stand in for %s: %w", name, err)
		}
		p.runs[name] = &pod{cmd: cmd} // it ends with the namespace
	}
	return nil
}

func (p *pod) alive() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

func (p *plane) start(ctx context.Context, name string, manifest []byte) error {
	if former := p.runs[name]; former != nil {
		_ = former.cmd.Process.Kill() // it may have ended
		<-former.ended
	}
	var spec corev1.Pod
	if err := yaml.Unmarshal(manifest, &spec); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for _, v := range spec.Spec.Volumes {
		if v.HostPath == nil || v.HostPath.Type != nil && *v.HostPath.Type != corev1.HostPathDirectoryOrCreate {
			continue
		}
		if err := os.MkdirAll(p.host.root+v.HostPath.Path, 0o755); err != nil {
			return err
		}
	}
	if _, err := os.Stat(filepath.Join(p.host.root, "opt", name)); err != nil {
		if _, err := p.bundle.Program(ctx, name, filepath.Join(p.host.root, "opt")); err != nil {
			return err
		}
	}
	log, err := os.OpenFile(p.lab.path(name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	one := &pod{manifest: manifest, cmd: exec.Command("/opt/"+name, spec.Spec.Containers[0].Command[1:]...), ended: make(chan struct{})}
	one.cmd.Dir, one.cmd.Env, one.cmd.Stdout, one.cmd.Stderr = "/", tool.Env(), log, log
	one.cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: p.host.root}
	if err := p.in.do(one.cmd.Start); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	go func() { _ = one.cmd.Wait(); close(one.ended) }() // keep starts it again
	p.runs[name] = one
	return nil
}

// kubectl runs the bundle's kubectl as the administrator.
func (p *plane) kubectl(ctx context.Context, stdin []byte, args ...string) (string, error) {
	program, err := p.bundle.Binary("kubectl")
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, p.bundle.Path(program.Digest), append([]string{"--kubeconfig", p.host.root + "/etc/kubernetes/super-admin.conf"}, args...)...)
	cmd.Stdin, cmd.Env = bytes.NewReader(stdin), append(tool.Env(), "HOME="+p.lab.dir)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, tool.LastLines(said.String(), 3))
	}
	return string(out), nil
}

// register stands in for the machines' kubelets and the controllers: once the API serves, all nodes are registered and ready, and so are the workloads.
func (p *plane) register(ctx context.Context) error {
	if err := p.until(ctx, func() error { _, err := p.kubectl(ctx, nil, "get", "--raw", "/readyz"); return err }); err != nil {
		return err
	}
	list := corev1.NodeList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}}
	for i, h := range p.lab.machines {
		list.Items = append(list.Items, p.node(i, h))
	}
	data, err := json.Marshal(list)
	if err != nil {
		return err
	}
	err = p.until(ctx, func() error { // a busy API server may break off halfway; the next attempt then fails at nodes that exist
		_, err := p.kubectl(ctx, data, "create", "-f", "-")
		if all, e := p.kubectl(ctx, nil, "get", "nodes", "-o", "name"); e == nil && strings.Count(all, "\n") == len(list.Items) {
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	err = p.until(ctx, func() error {
		_, err := p.kubectl(ctx, nil, "taint", "nodes", "--all", "node.kubernetes.io/not-ready:NoSchedule-")
		if err != nil && strings.Contains(err.Error(), "not found") { // the first attempt has removed it
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	return p.until(ctx, func() error {
		const ready = `{"status":{"observedGeneration":1000,"replicas":2,"updatedReplicas":2,"readyReplicas":2,"availableReplicas":2}}`
		_, err := p.kubectl(ctx, nil, "-n", "kube-system", "patch", "deployment", "coredns", "--subresource=status", "--type=merge", "-p", ready)
		return err
	})
}

// until repeats what fails until it succeeds, or ctx ends: the caller ends it with the apply.
func (p *plane) until(ctx context.Context, done func() error) error {
	var last error
	err := tool.Until(ctx, time.Second, func() (bool, error) { last = done(); return last == nil, nil })
	if err != nil {
		return fmt.Errorf("%w: %w", err, last)
	}
	return nil
}

// node returns the node as its kubelet would report it.
func (p *plane) node(i int, h *host) corev1.Node {
	now := metav1.Now()
	have := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("16Gi"), corev1.ResourcePods: resource.MustParse("110"),
		corev1.ResourceEphemeralStorage: resource.MustParse("100Gi"),
	}
	n := corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: h.name, Labels: map[string]string{
			"kubernetes.io/hostname": h.name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "amd64",
		}},
		Spec: corev1.NodeSpec{PodCIDR: fmt.Sprintf("10.%d.%d.0/24", 244+i/256, i%256)},
		Status: corev1.NodeStatus{
			Capacity: have, Allocatable: have,
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: h.address}, {Type: corev1.NodeHostName, Address: h.name}},
			NodeInfo: corev1.NodeSystemInfo{
				BootID: h.bootID, KubeletVersion: p.bundle.Manifest.Kubernetes, KernelVersion: "6.1.0", OSImage: "Debian GNU/Linux 12 (bookworm)",
				ContainerRuntimeVersion: "containerd://2.2.0", OperatingSystem: "linux", Architecture: "amd64",
			},
		},
	}
	n.Spec.PodCIDRs = []string{n.Spec.PodCIDR}
	for kind, status := range map[corev1.NodeConditionType]corev1.ConditionStatus{
		corev1.NodeReady: corev1.ConditionTrue, corev1.NodeMemoryPressure: corev1.ConditionFalse, corev1.NodeDiskPressure: corev1.ConditionFalse, corev1.NodePIDPressure: corev1.ConditionFalse,
	} {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: kind, Status: status, LastHeartbeatTime: now, LastTransitionTime: now, Reason: "Kubelet", Message: "as kubelet reports it"})
	}
	// The images that it has, which are much of what the API sends of a node.
	for _, image := range p.bundle.Manifest.Images {
		n.Status.Images = append(n.Status.Images, corev1.ContainerImage{Names: []string{image.Ref}, SizeBytes: image.Archive.Size})
	}
	return n
}
