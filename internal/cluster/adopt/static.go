package adopt

import (
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// container is what of a container counts here.
type container struct {
	Name    string   `json:"name"`
	Image   string   `json:"image"`
	Command []string `json:"command"`
	Args    []string `json:"args"`
}

// staticPod is what of a static pod's manifest counts here.
type staticPod struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
	} `json:"metadata"`
	Spec struct {
		Containers []container `json:"containers"`
	} `json:"spec"`

	file string
}

// staticPods reads all manifests of a host, by file. The kubelet runs every file whose name begins with no dot, whatever the ending; junk lists
// the files that hold no pod.
func (h Host) staticPods() (pods []staticPod, junk []string) {
	for file, data := range h.Files {
		if path.Dir(file)+"/" != manifestDir || strings.HasPrefix(path.Base(file), ".") {
			continue
		}
		p := staticPod{file: file}
		if yaml.Unmarshal(data, &p) != nil || p.Kind != "Pod" || p.Metadata.Name == "" {
			junk = append(junk, path.Base(file))
			continue
		}
		pods = append(pods, p)
	}
	slices.SortFunc(pods, func(a, b staticPod) int { return strings.Compare(a.file, b.file) })
	slices.Sort(junk)
	return pods, junk
}

// pod finds the manifest that makes a component's pod, by the pod's name. Where several do, that of kubeadm's file comes first.
func (h Host) pod(component string) (p staticPod, ok bool) {
	pods, _ := h.staticPods()
	for _, one := range pods {
		if one.Metadata.Name == component && (!ok || one.file == manifestDir+component+".yaml") {
			p, ok = one, true
		}
	}
	return p, ok
}

// server finds the container of a component that runs the component; others may be beside it.
func (h Host) server(component string) (container, bool) {
	p, _ := h.pod(component)
	for _, c := range p.Spec.Containers {
		if c.Name == component || len(c.Command) > 0 && path.Base(c.Command[0]) == component {
			return c, true
		}
	}
	return container{}, false
}

// manifests tells of static pods that are in the way, and of those that kubeadm has not made.
func (d *drafting) manifests(h Host) {
	pods, junk := h.staticPods()
	files := map[string][]string{}
	for _, p := range pods {
		files[p.Metadata.Name] = append(files[p.Metadata.Name], path.Base(p.file))
	}
	var others []string
	for _, p := range pods {
		name, file := p.Metadata.Name, path.Base(p.file)
		ours := slices.Contains(components(), name)
		switch same := files[name]; {
		case len(same) > 1:
			keep := same[0]
			if slices.Contains(same, name+".yaml") {
				keep = name + ".yaml"
			}
			if file != keep {
				d.block(h.Name, "move "+file+" out of "+strings.TrimSuffix(manifestDir, "/"), "two manifests make the pod %s, %s and %s: the kubelet runs every file there, whatever its ending", name, keep, file)
			}
		case ours && file != name+".yaml":
			d.block(h.Name, "rename it to "+name+".yaml", "the manifest of %s is called %s: an apply would put another one beside it", name, file)
		case !ours:
			others = append(others, name)
		}
		if !ours {
			continue
		}
		var beside []string
		for _, c := range p.Spec.Containers {
			if s, _ := h.server(name); c.Name != s.Name {
				beside = append(beside, c.Name)
			}
		}
		if len(beside) > 0 && len(files[name]) == 1 {
			d.add(Lost, h.Name, name+": containers beside it in its pod: "+strings.Join(beside, ", "), "give them a static pod of their own before an apply")
		}
	}
	if len(junk) > 0 {
		d.add(Stays, h.Name, "files among the manifests that are no pods: "+strings.Join(junk, ", "), "move them out of "+strings.TrimSuffix(manifestDir, "/"))
	}
	d.otherPods(h, others)
}

// balancers are local load balancers before the API servers, by the names of their static pods.
var balancers = []string{"nginx-proxy", "haproxy"}

// otherPods tells of static pods that are not kubeadm's.
func (d *drafting) otherPods(h Host, names []string) {
	var plain []string
	for _, name := range names {
		if slices.Contains(balancers, name) {
			d.add(Stays, h.Name, "a local load balancer before the API servers: "+name, "machines that were taken over use the endpoint instead: remove it after the first apply")
			continue
		}
		if !slices.Contains(plain, name) {
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
