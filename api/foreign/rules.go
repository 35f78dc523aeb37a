package foreign

import (
	"bytes"
	"regexp"
)

// Remedies that several rules share.
const (
	comingFrom = `docs/how-to/coming-from.md shows where its settings belong, "naupegos init" writes a document`
	takeOver   = `"naupegos import" takes a running cluster over and writes its document; ` + comingFrom
	moving     = `docs/how-to/coming-from.md#other-tools says how its clusters move; "naupegos init" writes a document`
	begin      = `"naupegos init" writes a Cluster document`
	manifests  = `name the file in spec.manifests of a document; "naupegos init" writes one`
)

// rule names a kind of file.
type rule struct {
	shows shows
	name  string // after "is"
	do    string
	kind  bool // the message names the object's kind
}

// what names the kind of file of a document that the rule matches.
func (r rule) what(d document) string {
	if kind := d.text("kind"); r.kind && objectKind.MatchString(kind) {
		return r.name + " (" + kind + ")"
	}
	return r.name
}

// rules are tried in order, so special ones come first.
var rules = []rule{
	{is("kind", "naupegos-plan"), "a saved plan of naupegos", `carry it out with "naupegos apply PLAN", without -f`, false},
	{group("kubeadm.k8s.io", "kubelet.config.k8s.io", "kubeproxy.config.k8s.io"), "a kubeadm configuration", takeOver, true},
	{group("kops.k8s.io"), "a kOps configuration", comingFrom, true},
	{group("kubeone.k8c.io", "kubeone.io"), "a KubeOne configuration", takeOver, false},
	{group("k0sctl.k0sproject.io", "k0s.k0sproject.io"), "a k0s or k0sctl configuration", moving, false},
	{group("cluster.x-k8s.io"), "an object of Cluster API", moving, true},
	{group("kind.x-k8s.io"), "a kind configuration", begin, false},
	{group("eksctl.io"), "an eksctl configuration", moving, false},
	{group("k3d.io"), "a k3d configuration", begin, false},
	{group("kubekey.kubesphere.io"), "a KubeKey configuration", moving, false},
	{group("core.gardener.cloud"), "an object of Gardener", moving, true},
	{group("provisioning.cattle.io", "management.cattle.io", "rke.cattle.io", "rke-machine-config.cattle.io"), "an object of Rancher", moving, true},
	{either(all(keys("machine.type"), is("version", "v1alpha1")), keys("machine.type", "cluster.controlPlane"), all(is("version", "v1alpha1"), some(1, "machine cluster")),
		all(is("apiVersion", "v1alpha1"), some(1, "kind"), without("spec metadata"))), "a machine configuration of Talos", moving, false},
	{all(keys("kubernetes.version", "talos.version"), is("kind", "Cluster")), "a cluster template of Omni", moving, false},
	{either(keys("nodes.*.role", "nodes.*.address"), keys("services.kube-api")), "an RKE configuration", moving, false},
	{some(2, "token server tls-san write-kubeconfig write-kubeconfig-mode cluster-init cluster-cidr service-cidr node-label node-taint node-ip node-name disable flannel-backend kube-apiserver-arg kubelet-arg agent-token"),
		"an RKE2 or K3s configuration", moving, false},
	{either(all(is("kind", "Config"), some(1, "clusters contexts users")), all(keys("clusters.*.cluster"), some(1, "contexts users current-context"))), "a kubeconfig",
		`naupegos reads none: "naupegos import NAME --from HOST" takes a cluster over by SSH, "naupegos kubeconfig NAME" writes one for a cluster of its own`, false},
	{either(keys("clouds.*.auth"), keys("clouds.*.auth_url"), keys("clouds.*.profile"), keys("clouds.*.region_name"), keys("clouds.*.auth_type")), "a clouds.yaml of OpenStack",
		`name one of its clouds in spec.provider.openstack.cloud, and the file in $OS_CLIENT_CONFIG_FILE; "naupegos init --provider openstack" writes a document`, false},
	{either(keys("all.children"), keys("all.hosts"), keys("all.vars"), keys("kube_control_plane.hosts"), keys("k8s_cluster.children"), keys("_meta.hostvars")), "an Ansible inventory", inventory, false},
	{some(1, "kube_version kube_network_plugin kube_service_addresses kube_pods_subnet kube_network_node_prefix kube_proxy_mode kube_config_dir kube_owner kube_oidc_auth container_manager etcd_deployment_type "+
		"etcd_kubeadm_enabled loadbalancer_apiserver metrics_server_enabled metallb_enabled helm_enabled"), "Kubespray's group_vars", takeOver, false},
	{either(keys("*.hosts", "*.tasks"), keys("*.hosts", "*.roles"), keys("*.import_playbook"), keys("*.ansible.builtin.import_playbook")), "an Ansible playbook", moving, false},
	{either(keys("services.*.image"), keys("services.*.build")), "a Compose file", "its services become manifests or charts, in spec.manifests and spec.charts; " + begin, false},
	{either(keys("terraform_version", "resources"), keys("lineage", "serial"), keys("resource.*.*"), keys("terraform.required_providers")), "a Terraform file", moving, false},
	{either(group("kustomize.config.k8s.io"), all(either(list("resources"), list("bases"), list("patches"), list("configMapGenerator")), without("apiVersion kind metadata spec replicaCount image"))), "a kustomization",
		`name its directory in spec.manifests[].kustomize of a document; "naupegos init" writes one`, false},
	{all(is("apiVersion", "v1 v2"), keys("name"), keys("version"), without("kind metadata")), "the Chart.yaml of a Helm chart", `name the chart in spec.charts of a document; "naupegos init" writes one`, false},
	{all(either(keys("image.repository"), some(2, "replicaCount fullnameOverride nameOverride imagePullSecrets serviceAccount podAnnotations podSecurityContext securityContext nodeSelector tolerations affinity autoscaling ingress resources livenessProbe service persistence")),
		without("apiVersion kind metadata spec")), "the values of a Helm chart", `name the file in spec.charts[].valuesFiles of a document; "naupegos init" writes one`, false},
	{all(some(2, "package_update package_upgrade packages runcmd bootcmd write_files users ssh_authorized_keys hostname chpasswd"), without("kind spec")), "a cloud-init configuration", machineSettings, false},
	{either(keys("ignition.version"), is("variant", "fcos flatcar")), "an Ignition or Butane configuration", machineSettings, false},
	{all(is("kind", "Secret"), object), "a Kubernetes Secret", `documents hold no secrets: make it with "naupegos kubectl NAME apply -f FILE"; ` + begin, false},
	{all(is("kind", "List"), object), "a list of Kubernetes objects", manifests, false},
	{object, "a Kubernetes object", manifests, true},
}

const (
	inventory = `its machines go into spec.provider.hosts.machines: "naupegos init --provider hosts --host ADDRESS" writes a document; ` +
		`"naupegos import" takes a running cluster of kubeadm or Kubespray over`
	machineSettings = `the fields of spec.machines set packages, files and units; "naupegos init" writes a document`
)

// texts recognize files that are no YAML, or only by accident. The first match wins.
var texts = []struct {
	is       *regexp.Regexp
	name, do string
}{
	{regexp.MustCompile(`^\s*<(?i:!doctype html|html)`), "a web page", "was the download refused? " + begin},
	{regexp.MustCompile(`^\s*<\?xml`), "an XML file", begin},
	{regexp.MustCompile(`(?m)^-----BEGIN [A-Z0-9 ]+-----`), "a certificate or key", begin},
	{regexp.MustCompile(`(?m)^\s*(export\s+)?OS_AUTH_URL=`), "an openrc file of OpenStack", `run ". FILE" in the shell, and leave spec.provider.openstack.cloud out; "naupegos init --provider openstack" writes a document`},
	{regexp.MustCompile(`^#!`), "a script", begin},
	{regexp.MustCompile(`(?m)^\[[\w.-]+:(children|vars)\]|^\[(all|kube[_-]control[_-]plane|kube[_-]master|kube[_-]node|etcd|k8s[_-]cluster|masters?|workers?|control_?plane|nodes)\]\s*$|^[\w.\[\]:-]+[ \t]+.*\bansible_(host|user|port|ssh_|connection)\w*\s*=`),
		"an Ansible inventory", inventory},
	{regexp.MustCompile(`(?m)^(resource|provider|module|variable|output|data)[ \t]+"[^"\n]*"([ \t]+"[^"\n]*")?[ \t]*\{|^(terraform|locals)[ \t]*\{`), "a Terraform file", moving},
	{regexp.MustCompile(`(?m)^[ \t]*(apiVersion|kind|metadata|spec|\w[\w-]*):(.*\n)*.*(\{\{|\{%)|^[ \t]*(\{\{|\{%)`), "a template", "documents are not expanded: render it first"},
	{regexp.MustCompile(`(?m)^\[[\w. "'-]+\][ \t]*$`), "an INI or TOML file", begin},
	{regexp.MustCompile(`(?m)^(export[ \t]+)?[A-Za-z_]\w*[ \t]*=`), "a list of assignments, such as Terraform's variables or a shell's", begin},
}

// recognizeText recognizes a file by its lines.
func recognizeText(data []byte) (file, bool) {
	if bytes.Contains(data, []byte("naupegos.dev/")) {
		return file{}, false
	}
	for _, t := range texts {
		if at := t.is.FindIndex(data); at != nil {
			start := at[0]
			for start < at[1]-1 && (data[start] == '\n' || data[start] == ' ') {
				start++
			}
			return file{bytes.Count(data[:start], []byte("\n")) + 1, 1, t.name, t.do}, true
		}
	}
	return file{}, false
}
