// Package figures reads the figures of a cluster, such as the load of its machines, from the cluster's own Prometheus.
//
// The queries are fixed here; a caller chooses a time range and a machine. The answers are untrusted: everything about them is bounded. The package
// knows neither documents nor pages.
package figures

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

// Unit is the unit of a chart's values.
type Unit string

// The units.
const (
	Ratio     Unit = "ratio" // 0 to 1
	Bytes     Unit = "bytes"
	ByteRate  Unit = "bytes/s"
	Requests  Unit = "requests/s"
	Seconds   Unit = "seconds"
	Instances Unit = "count"
)

// The groups of charts.
const (
	GroupMachines = "Machines"
	GroupControl  = "Control plane"
	GroupPods     = "Pods"
)

// Query is what one chart shows.
type Query struct {
	ID, Group, Title string
	Unit             Unit
	// Expr is PromQL. $node stands for a matcher of one machine, with its comma, and $window for the window of rates.
	Expr  string
	Label string // label that tells the series apart
	Needs string // addon without which there are no data; empty: Prometheus alone
}

// Names of addons.
const (
	nodeExporter     = "node-exporter"
	kubeStateMetrics = "kube-state-metrics"
)

// real excludes interfaces that repeat the traffic of others, and those of pods.
const real = `device!~"lo|veth.*|br.*|docker.*|cni.*|flannel.*|vxlan.*|cali.*|tunl.*|cilium.*|lxc.*|kube-.*|nodelocaldns|dummy.*|bond.*|team.*|wg.*|tun.*|tap.*|.+[.].+"`

// served excludes requests that last as long as their clients like.
const served = `verb!~"WATCH|CONNECT",subresource!~"proxy|attach|log|exec|portforward"`

// all lists the charts in the order of the pages.
var all = []Query{
	{"cpu", GroupMachines, "CPU", Ratio, `1 - avg by (node) (rate(node_cpu_seconds_total{mode="idle"$node}[$window]))`, "node", nodeExporter},
	{"memory", GroupMachines, "Memory", Ratio, `max by (node) (1 - node_memory_MemAvailable_bytes{job="node-exporter"$node} / node_memory_MemTotal_bytes)`, "node", nodeExporter},
	{"disk", GroupMachines, "Fullest file system", Ratio, `max by (node) (1 - node_filesystem_avail_bytes{fstype!~"tmpfs|ramfs|squashfs|iso9660|overlay|fuse.*"$node} / node_filesystem_size_bytes and node_filesystem_readonly == 0)`, "node", nodeExporter},
	{"received", GroupMachines, "Network, received", ByteRate, `sum by (node) (rate(node_network_receive_bytes_total{` + real + `$node}[$window]))`, "node", nodeExporter},
	{"sent", GroupMachines, "Network, sent", ByteRate, `sum by (node) (rate(node_network_transmit_bytes_total{` + real + `$node}[$window]))`, "node", nodeExporter},

	{"requests", GroupControl, "API requests", Requests, `sum by (verb) (rate(apiserver_request_total{job="apiserver"}[$window]))`, "verb", ""},
	{"latency", GroupControl, "API requests, time of the slowest 1 %", Seconds, `histogram_quantile(0.99, sum by (verb, le) (rate(apiserver_request_duration_seconds_bucket{job="apiserver",` + served + `}[$window])))`, "verb", ""},
	{"errors", GroupControl, "API requests that failed (5xx)", Ratio, `(sum by (node) (rate(apiserver_request_total{job="apiserver",code=~"5.."}[$window])) or 0 * sum by (node) (rate(apiserver_request_total{job="apiserver"}[$window]))) / sum by (node) (rate(apiserver_request_total{job="apiserver"}[$window]))`, "node", ""},
	{"etcd", GroupControl, "Requests to etcd, time of the slowest 1 %", Seconds, `histogram_quantile(0.99, sum by (node, le) (rate(etcd_request_duration_seconds_bucket{job="apiserver"}[$window])))`, "node", ""},
	{"database", GroupControl, "Database of etcd", Bytes, `max by (node) (apiserver_storage_size_bytes{job="apiserver"})`, "node", ""},

	{"pods", GroupPods, "Pods by phase", Instances, `sum by (phase) (kube_pod_status_phase)`, "phase", kubeStateMetrics},
	{"restarts", GroupPods, "Restarts of containers, by namespace", Instances, `topk(20, sum by (namespace) (increase(kube_pod_container_status_restarts_total[$window])) > 0)`, "namespace", kubeStateMetrics},
}

// Queries lists the charts.
func Queries() []Query { return slices.Clone(all) }

// Range is a time range.
type Range struct {
	Name string        // "1h"
	Text string        // "last hour"
	Long time.Duration // its length
}

// points is the number of steps in a range; a chart has one more value.
const points = 60

// Step returns the time between two values.
func (r Range) Step() time.Duration { return r.Long / points }

// Ranges lists the time ranges, the usual one first.
func Ranges() []Range {
	return []Range{{"1h", "last hour", time.Hour}, {"6h", "last 6 hours", 6 * time.Hour}, {"24h", "last 24 hours", 24 * time.Hour}, {"7d", "last 7 days", 7 * 24 * time.Hour}}
}

// Ask selects the figures to read.
type Ask struct {
	Range   string `json:"range,omitempty" enum:"1h,6h,24h,7d" doc:"The time range; empty: 1h"`
	Machine string `json:"machine,omitempty" maxLength:"63" doc:"Only the figures of this machine"`
}

// name is the form of a machine's name, which becomes a part of a query.
var name = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$`)

// Check returns the time range, and refuses one that does not exist and a malformed name.
func (a Ask) Check() (Range, error) {
	if a.Machine != "" && !name.MatchString(a.Machine) {
		return Range{}, fail.New(fail.Invalid, "%.63q is no name of a machine", a.Machine)
	}
	var names []string
	for _, r := range Ranges() {
		if r.Name == a.Range || a.Range == "" {
			return r, nil
		}
		names = append(names, r.Name)
	}
	return Range{}, fail.New(fail.Invalid, "there is no time range %.10q", a.Range).Do("take %s", strings.Join(names, ", "))
}

// shortestWindow contains two readings at the longest interval that the addon permits, two minutes.
const shortestWindow = 5 * time.Minute

// promql returns the query of a chart for a range and a machine; empty: all machines.
func (q Query) promql(r Range, machine string) string {
	matcher := ""
	if machine != "" {
		matcher = ",node=" + strconv.Quote(machine)
	}
	window := strconv.Itoa(int(max(r.Step(), shortestWindow).Seconds())) + "s"
	return strings.NewReplacer("$node", matcher, "$window", window).Replace(q.Expr)
}

// OfMachines reports whether a chart has a series for each machine.
func (q Query) OfMachines() bool { return q.Group == GroupMachines }
