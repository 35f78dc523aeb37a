package adopt

import (
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// container holds the fields of a container that import reads.
type container struct {
	Name    string   `json:"name"`
	Image   string   `json:"image"`
	Command []string `json:"command"`
	Args    []string `json:"args"`
	Env     []struct {
		Name string `json:"name"`
	} `json:"env"`
}

// staticPod holds the fields of a static pod's manifest that import reads.
type staticPod struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
	} `json:"metadata"`
	Spec struct {
		Containers  []container `json:"containers"`
		HostAliases []any       `json:"hostAliases"`
	} `json:"spec"`

	file string
}

// staticPods reads all manifests of a host, by file. The kubelet runs every file whose name does not begin with a dot, whatever its ending; junk
// lists the files that contain no pod.
func (h Host) staticPods() (pods []staticPod, junk []string) {
	for file, data := range h.Files {
		if path.Dir(file)+"/" != manifestDir || strings.HasPrefix(path.Base(file), ".") {
			continue
		}
		if p, ok := readPod(file, data); ok {
			pods = append(pods, p)
		} else {
			junk = append(junk, path.Base(file))
		}
	}
	slices.SortFunc(pods, func(a, b staticPod) int { return strings.Compare(a.file, b.file) })
	slices.Sort(junk)
	return pods, junk
}

// pod finds the manifest of a component's pod, by the pod's name. If there are several, kubeadm's file has precedence.
func (h Host) pod(component string) (p staticPod, ok bool) {
	file := manifestDir + component + ".yaml"
	if p, ok = readPod(file, h.Files[file]); ok && p.Metadata.Name == component {
		return p, true
	}
	pods, _ := h.staticPods()
	if i := slices.IndexFunc(pods, func(p staticPod) bool { return p.Metadata.Name == component }); i >= 0 {
		return pods[i], true
	}
	return staticPod{}, false
}

// readPod reads a manifest; false if it makes no pod.
func readPod(file string, data []byte) (staticPod, bool) {
	p := staticPod{file: file}
	ok := len(data) > 0 && yaml.Unmarshal(data, &p) == nil && p.Kind == "Pod" && p.Metadata.Name != ""
	return p, ok
}

// server finds the container of a component that runs the component; its pod may have others.
func (h Host) server(component string) (container, bool) {
	p, _ := h.pod(component)
	for _, c := range p.Spec.Containers {
		if c.Name == component || len(c.Command) > 0 && path.Base(c.Command[0]) == component {
			return c, true
		}
	}
	return container{}, false
}

const manifests = "/etc/kubernetes/manifests"

// manifests reports static pods that stand in the way, and static pods of others than kubeadm.
func (d *drafting) manifests(h Host) {
	if dir := h.staticPodPath(); dir != "" && dir != manifests {
		d.block(h.Name, "move them to "+manifests+", and have staticPodPath of the kubelet's configuration say so", "static pods lie in %s", dir)
	}
	pods, junk := h.staticPods()
	files := map[string][]string{}
	for _, p := range pods {
		files[p.Metadata.Name] = append(files[p.Metadata.Name], path.Base(p.file))
	}
	var others []string
	for _, p := range pods {
		name, file := p.Metadata.Name, path.Base(p.file)
		ours, same := slices.Contains(components(), name), files[p.Metadata.Name]
		keep := same[0]
		if slices.Contains(same, name+".yaml") {
			keep = name + ".yaml"
		}
		switch {
		case file != keep:
			d.block(h.Name, "move "+file+" out of "+manifests, "two manifests make the pod %s, %s and %s: the kubelet runs every file there, with any ending", name, keep, file)
		case ours && file != name+".yaml":
			d.block(h.Name, "rename it to "+name+".yaml", "the manifest of %s is called %s: an apply would put another one beside it", name, file)
		case ours:
			d.beside(h, p)
		default:
			others = append(others, name)
		}
	}
	if len(junk) > 0 {
		d.add(Stays, h.Name, "files among the manifests that are no pods: "+strings.Join(junk, ", "), "move them out of "+manifests)
	}
	d.otherPods(h, others)
}

// staticPodPath is the directory of static pods by the kubelet's configuration; empty if that can't be read.
func (h Host) staticPodPath() string {
	settings, err := h.kubeletSettings()
	if err != nil || settings["staticPodPath"] == "" {
		return ""
	}
	return path.Clean(settings["staticPodPath"])
}

// beside reports what a component's pod has and our manifests lack: containers, environment variables and host aliases.
func (d *drafting) beside(h Host, p staticPod) {
	own, _ := h.server(p.Metadata.Name)
	var names []string
	for _, c := range p.Spec.Containers {
		if c.Name != own.Name {
			names = append(names, c.Name)
		}
	}
	if len(names) > 0 {
		d.add(Lost, h.Name, p.Metadata.Name+": containers beside it in its pod: "+strings.Join(names, ", "), "give them a static pod of their own before the first apply")
	}
	var vars []string
	for _, v := range own.Env {
		vars = append(vars, v.Name)
	}
	if len(vars) > 0 { // kubeadm copies the proxy of the user's environment, whether or not a server needs it
		d.add(Lost, h.Name, p.Metadata.Name+": environment variables: "+strings.Join(vars, ", "), "where the server reaches an issuer, a webhook or a cloud by them, do not apply")
	}
	if len(p.Spec.HostAliases) > 0 {
		d.add(Lost, h.Name, p.Metadata.Name+": host aliases of its pod", "write the names to /etc/hosts of control-plane machines")
	}
}

// balancerPods are local load balancers before the API servers, by the names of their static pods.
var balancerPods = []string{"nginx-proxy", "haproxy"}

// otherPods reports static pods that are not kubeadm's.
func (d *drafting) otherPods(h Host, names []string) {
	var plain []string
	for _, name := range names {
		if slices.Contains(balancerPods, name) {
			d.add(Stays, h.Name, "the static pod "+name+", a local load balancer before the API servers", "kubelets and kube-proxy do without it after the first apply: remove its manifest then, unless the pod network uses it")
		} else {
			plain = append(plain, name)
		}
	}
	if len(plain) == 0 {
		return
	}
	do := ""
	if h.isControlPlane() {
		do = "machines that join the control plane later do not get them: put them there"
	}
	d.add(Stays, h.Name, "static pods that kubeadm has not made: "+strings.Join(plain, ", "), do)
}
