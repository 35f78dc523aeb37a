package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Event is an event that Kubernetes recorded. Its texts are untrusted.
type Event struct {
	At      time.Time `json:"at"` // when it last happened
	Warning bool      `json:"warning"`
	Object  string    `json:"object"` // "Pod kube-system/coredns-1"
	Node    string    `json:"node,omitempty"`
	Reason  string    `json:"reason"`
	Text    string    `json:"text"`
	Count   int       `json:"count"` // how often it happened
	ID      string    `json:"id"`    // differs for each occurrence
}

// Events returns the newest events since a time, at most a given number, oldest first. pods gives the node of each pod.
func Events(ctx context.Context, c *Client, since time.Time, most int, pods map[string]string) ([]Event, error) {
	var out []Event
	for next := ""; ; {
		list, err := c.set.CoreV1().Events("").List(ctx, metav1.ListOptions{Limit: 500, Continue: next})
		if err != nil {
			return nil, apiError(ctx, err, "list events").At(c.server)
		}
		for i := range list.Items {
			if e := eventOf(&list.Items[i], pods); !e.At.Before(since) {
				out = append(out, e)
			}
		}
		if len(out) > 2*most {
			out = newest(out, most)
		}
		if next = list.Continue; next == "" {
			return newest(out, most), nil
		}
	}
}

// newest returns the newest events, oldest first.
func newest(all []Event, most int) []Event {
	slices.SortStableFunc(all, func(a, b Event) int { return a.At.Compare(b.At) })
	return all[max(0, len(all)-most):]
}

func eventOf(e *corev1.Event, pods map[string]string) Event {
	out := Event{At: e.LastTimestamp.Time, Warning: e.Type == corev1.EventTypeWarning, Reason: e.Reason, Text: e.Message, Count: max(1, int(e.Count)), ID: string(e.UID) + "/" + e.ResourceVersion}
	if e.Series != nil {
		out.Count, out.At = max(out.Count, int(e.Series.Count)), e.Series.LastObservedTime.Time
	}
	for _, at := range []time.Time{e.EventTime.Time, e.FirstTimestamp.Time, e.CreationTimestamp.Time} {
		if out.At.IsZero() {
			out.At = at
		}
	}
	about := e.InvolvedObject
	out.Object = about.Kind + " " + strings.TrimPrefix(about.Namespace+"/"+about.Name, "/")
	switch about.Kind {
	case "Node":
		out.Node, out.Object = about.Name, "Node "+about.Name
	case "Pod":
		if out.Node = pods[about.Namespace+"/"+about.Name]; out.Node == "" && strings.HasPrefix(e.Source.Component, "kubelet") {
			out.Node = e.Source.Host
		}
	}
	return out
}

// NodeLoad is a node with its conditions and pods.
type NodeLoad struct {
	Node        string            `json:"node"`
	OS          string            `json:"os,omitempty"`
	Kernel      string            `json:"kernel,omitempty"`
	Runtime     string            `json:"runtime,omitempty"`
	Conditions  []Condition       `json:"conditions"`
	Labels      map[string]string `json:"labels,omitempty"`
	Taints      []string          `json:"taints,omitempty"`
	Pods        int               `json:"pods"`
	PodsReady   int               `json:"podsReady"`
	PodLimit    int64             `json:"podLimit"`
	CPU         int64             `json:"cpuMilli"`          // allocatable to pods, in millicores
	CPUAsked    int64             `json:"cpuRequestedMilli"` // sum of the pods' requests
	Memory      int64             `json:"memoryBytes"`
	MemoryAsked int64             `json:"memoryRequestedBytes"`
}

// Condition is a condition of a node.
type Condition struct {
	Type   string    `json:"type"`
	Status string    `json:"status"`
	Reason string    `json:"reason,omitempty"`
	Text   string    `json:"text,omitempty"`
	Since  time.Time `json:"since,omitzero"`
}

// Loads describes all nodes, sorted by name, and returns the node of each pod, by namespace/name.
func Loads(ctx context.Context, c *Client) (loads []NodeLoad, pods map[string]string, err error) {
	list, err := listNodes(ctx, c)
	if err != nil {
		return nil, nil, apiError(ctx, err, "list nodes").At(c.server)
	}
	all, err := listPods(ctx, c, "")
	if err != nil {
		return nil, nil, apiError(ctx, err, "list pods").At(c.server)
	}
	pods = map[string]string{}
	of := map[string]*NodeLoad{}
	for i := range list {
		l := loadOf(&list[i])
		of[l.Node] = l
	}
	for i := range all {
		p := &all[i]
		pods[p.Namespace+"/"+p.Name] = p.Spec.NodeName
		if l := of[p.Spec.NodeName]; l != nil && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
			l.add(p)
		}
	}
	for _, l := range of {
		loads = append(loads, *l)
	}
	slices.SortFunc(loads, func(a, b NodeLoad) int { return strings.Compare(a.Node, b.Node) })
	return loads, pods, nil
}

func loadOf(n *corev1.Node) *NodeLoad {
	info, may := n.Status.NodeInfo, n.Status.Allocatable
	l := &NodeLoad{Node: n.Name, OS: info.OSImage, Kernel: info.KernelVersion, Runtime: info.ContainerRuntimeVersion, Labels: n.Labels,
		PodLimit: may.Pods().Value(), CPU: may.Cpu().MilliValue(), Memory: may.Memory().Value()}
	for _, t := range n.Spec.Taints {
		l.Taints = append(l.Taints, t.ToString())
	}
	for _, c := range n.Status.Conditions {
		l.Conditions = append(l.Conditions, Condition{string(c.Type), string(c.Status), c.Reason, c.Message, c.LastTransitionTime.Time})
	}
	return l
}

// add adds a pod and its requests to the counts.
func (l *NodeLoad) add(p *corev1.Pod) {
	l.Pods++
	if slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue }) {
		l.PodsReady++
	}
	var cpu, memory resource.Quantity
	for i := range p.Spec.Containers {
		asked := p.Spec.Containers[i].Resources.Requests
		cpu.Add(*asked.Cpu())
		memory.Add(*asked.Memory())
	}
	l.CPUAsked += cpu.MilliValue()
	l.MemoryAsked += memory.Value()
}

// Usage is the resource usage of a node as its kubelet measures it.
type Usage struct {
	Node        string `json:"node"`
	CPU         int64  `json:"cpuMilli"`
	Memory      int64  `json:"memoryBytes"`
	MemoryTotal int64  `json:"memoryTotalBytes"`
	Disk        int64  `json:"diskBytes"`
	DiskTotal   int64  `json:"diskTotalBytes"`
}

// UsageOf asks a node's kubelet, through the API server, what the node uses.
func UsageOf(ctx context.Context, c *Client, node string) (Usage, error) {
	raw, err := c.set.CoreV1().RESTClient().Get().Resource("nodes").Name(node).SubResource("proxy").Suffix("stats/summary").Param("only_cpu_and_memory", "false").DoRaw(ctx)
	if err != nil {
		return Usage{}, apiError(ctx, err, "ask the kubelet of %s for its usage", node).At(c.server)
	}
	var s struct {
		Node struct {
			CPU struct {
				Nano int64 `json:"usageNanoCores"`
			} `json:"cpu"`
			Memory struct {
				Used int64 `json:"workingSetBytes"`
				Free int64 `json:"availableBytes"`
			} `json:"memory"`
			FS struct {
				Used  int64 `json:"usedBytes"`
				Total int64 `json:"capacityBytes"`
			} `json:"fs"`
		} `json:"node"`
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return Usage{}, fmt.Errorf("read the usage of node %s: %w", node, err)
	}
	return Usage{Node: node, CPU: s.Node.CPU.Nano / 1e6, Memory: s.Node.Memory.Used, MemoryTotal: s.Node.Memory.Used + s.Node.Memory.Free, Disk: s.Node.FS.Used, DiskTotal: s.Node.FS.Total}, nil
}
