package kube

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naupegos/naupegos/internal/fail"
)

// Survey describes a cluster that was not created by Naupegos, as its API reports it.
type Survey struct {
	// Records are the data of ConfigMaps of kube-system, by their names: kubeadm-config, kubelet-config, kube-proxy. Missing ones are left out.
	Records map[string]map[string]string
	Nodes   []SurveyedNode
	// DaemonSets are the names, as namespace/name, sorted.
	DaemonSets []string
	// Services are their names, as namespace/name, by their addresses.
	Services map[string]string
}

// SurveyedNode is a node with its kubelet's report on the machine.
type SurveyedNode struct {
	NodeInfo
	OS           string // "linux"
	Image        string // of the operating system: "Debian GNU/Linux 12 (bookworm)"
	Architecture string
	Runtime      string // "containerd://2.2.9"
	ProviderID   string
}

// Survey reads a description of the cluster from its API.
func (c *Client) Survey(ctx context.Context) (*Survey, error) {
	s := &Survey{Records: map[string]map[string]string{}, Services: map[string]string{}}
	for _, name := range []string{"kubeadm-config", "kubelet-config", "kube-proxy"} {
		m, err := c.set.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, apiError(ctx, err, "read the ConfigMap %s", name).At(c.server)
		}
		s.Records[name] = m.Data
	}
	infos, err := c.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	raw, err := c.listNodes(ctx)
	if err != nil {
		return nil, apiError(ctx, err, "list nodes").At(c.server)
	}
	for _, i := range infos {
		at := slices.IndexFunc(raw, func(n corev1.Node) bool { return n.Name == i.Name })
		if at < 0 {
			return nil, fail.New(fail.Conflict, "node %s went while the cluster was looked at", i.Name).At(c.server).Do("try again")
		}
		info, spec := raw[at].Status.NodeInfo, raw[at].Spec
		s.Nodes = append(s.Nodes, SurveyedNode{NodeInfo: i, OS: info.OperatingSystem, Image: info.OSImage, Architecture: info.Architecture,
			Runtime: info.ContainerRuntimeVersion, ProviderID: spec.ProviderID})
	}
	sets, err := c.set.AppsV1().DaemonSets(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, apiError(ctx, err, "list DaemonSets").At(c.server)
	}
	for i := range sets.Items {
		s.DaemonSets = append(s.DaemonSets, sets.Items[i].Namespace+"/"+sets.Items[i].Name)
	}
	slices.Sort(s.DaemonSets)
	services, err := c.set.CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, apiError(ctx, err, "list Services").At(c.server)
	}
	for i := range services.Items {
		if ip := services.Items[i].Spec.ClusterIP; ip != "" && ip != corev1.ClusterIPNone {
			s.Services[ip] = services.Items[i].Namespace + "/" + services.Items[i].Name
		}
	}
	return s, nil
}
