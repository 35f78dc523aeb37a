// Package eviction declares the settings of the document's addon descheduler. It checks only settings that the rest of the
// document does not affect, and renders nothing.
package eviction

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/naupegos/naupegos/api/strict"
)

// Descheduler evicts pods that would run better on other nodes; the scheduler then places them again. Evictions respect PodDisruptionBudgets.
type Descheduler struct {
	// Interval between two rounds.
	Interval strict.Duration `json:"interval,omitzero" yaml:"interval,omitempty" jsonschema:"default=5m"`
	// Evict no pod: only log and count the pods that a round would evict.
	DryRun bool `json:"dryRun,omitempty" yaml:"dryRun,omitempty" jsonschema:"default=false"`
	// What a round corrects: low-node-utilization moves pods from full nodes to empty ones; duplicates spreads the pods of one workload; topology-spread, node-affinity, node-taints and pod-anti-affinity move pods that break these rules by now; pod-life-time ends old pods. Left out: all that the settings allow.
	Policies []string `json:"policies,omitempty" yaml:"policies,omitempty" jsonschema:"maxItems=7"`
	// Which nodes are empty and which are full, by the requests of their pods.
	LowNodeUtilization *LowNodeUtilization `json:"lowNodeUtilization,omitempty" yaml:"lowNodeUtilization,omitempty"`
	// Let topology-spread move pods that break a constraint with ScheduleAnyway, too.
	SoftTopologySpread bool `json:"softTopologySpread,omitempty" yaml:"softTopologySpread,omitempty" jsonschema:"default=false"`
	// Age at which pod-life-time evicts a pod, from 1h to 2160h.
	PodLifeTime strict.Duration `json:"podLifeTime,omitzero" yaml:"podLifeTime,omitempty"`
	// Namespaces whose pods are never evicted, in addition to kube-system.
	ExcludedNamespaces []string `json:"excludedNamespaces,omitempty" yaml:"excludedNamespaces,omitempty" jsonschema:"maxItems=100"`
	// Evict only pods of workloads with at least this many pods. With 1, the only pod of a workload is evicted, too: the workload is away until the next one runs.
	MinReplicas int `json:"minReplicas,omitempty" yaml:"minReplicas,omitempty" jsonschema:"default=2,minimum=1,maximum=100"`
	// Evict pods whose directories on the node (emptyDir, hostPath) are lost, too.
	EvictLocalStorage bool `json:"evictLocalStorage,omitempty" yaml:"evictLocalStorage,omitempty" jsonschema:"default=false"`
	// Evict pods with PersistentVolumeClaims, too, except claims of the addon local-path.
	EvictVolumes bool `json:"evictVolumes,omitempty" yaml:"evictVolumes,omitempty" jsonschema:"default=false"`
	// Maximum number of evictions in one round.
	MaxEvictions int `json:"maxEvictions,omitempty" yaml:"maxEvictions,omitempty" jsonschema:"default=20,minimum=1,maximum=1000"`
}

// LowNodeUtilization says which nodes low-node-utilization takes for empty and for full.
type LowNodeUtilization struct {
	// Processors.
	CPU Utilization `json:"cpu,omitzero" yaml:"cpu,omitempty"`
	// Memory.
	Memory Utilization `json:"memory,omitzero" yaml:"memory,omitempty"`
	// Number of pods, in percent of the node's maximum.
	Pods Utilization `json:"pods,omitzero" yaml:"pods,omitempty"`
}

// Utilization holds shares of a node's resource in percent.
type Utilization struct {
	// A node is empty if it is below the thresholds of all resources.
	Threshold int `json:"threshold,omitempty" yaml:"threshold,omitempty" jsonschema:"default=20,minimum=1,maximum=100"`
	// A node is full if it exceeds the target of one resource. With 100, the resource makes no node full.
	Target int `json:"target,omitempty" yaml:"target,omitempty" jsonschema:"default=50,minimum=1,maximum=100"`
}

// The policies with settings of their own.
const lowUtilization, topologySpread, podLifeTime = "low-node-utilization", "topology-spread", "pod-life-time"

var deschedulerPolicies = []string{lowUtilization, "duplicates", topologySpread, "node-affinity", "node-taints", "pod-anti-affinity", podLifeTime}

// maxAge is the maximum age of pods.
const maxAge = 90 * 24 * time.Hour

// Fill sets the defaults that depend on other settings.
func (d *Descheduler) Fill() {
	if len(d.Policies) == 0 {
		d.Policies = slices.DeleteFunc(slices.Clone(deschedulerPolicies), func(p string) bool { return p == podLifeTime && d.PodLifeTime.Duration == 0 })
	}
	if d.LowNodeUtilization == nil && slices.Contains(d.Policies, lowUtilization) {
		d.LowNodeUtilization = &LowNodeUtilization{}
	}
}

// Check reports settings that do not fit together, at field.
func (d *Descheduler) Check(r *strict.Findings, field string) {
	r.Choices(field+".policies", "a policy", d.Policies, deschedulerPolicies)
	age := d.PodLifeTime.Duration
	for _, s := range []struct {
		key, policy string
		given       bool
	}{{"lowNodeUtilization", lowUtilization, d.LowNodeUtilization != nil}, {"softTopologySpread", topologySpread, d.SoftTopologySpread}, {"podLifeTime", podLifeTime, age != 0}} {
		if has := slices.Contains(d.Policies, s.policy); s.given && !has {
			r.Add(field+"."+s.key, s.policy+" is not among the policies", "add it, or remove this", field+".policies")
		} else if has && s.policy == podLifeTime && (age < time.Hour || age > maxAge) {
			r.Add(field+"."+s.key, podLifeTime+" needs an age between 1h and 2160h", "")
		}
	}
	if l := d.LowNodeUtilization; l != nil {
		for i, u := range []Utilization{l.CPU, l.Memory, l.Pods} {
			if at := field + ".lowNodeUtilization." + []string{"cpu", "memory", "pods"}[i]; u.Threshold > u.Target {
				r.Add(at+".threshold", fmt.Sprintf("%d is above the target, %d", u.Threshold, u.Target), "no node may be empty and full at once", at+".target")
			}
		}
	}
	for i, n := range d.ExcludedNamespaces {
		if len(validation.IsDNS1123Label(n)) > 0 {
			r.Add(strict.Item(field+".excludedNamespaces", i), strict.Quote(n)+" is not the name of a namespace", "write it in lower case, with digits and -")
		}
	}
}
