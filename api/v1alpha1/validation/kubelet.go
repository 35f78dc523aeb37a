package validation

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/naupegos/naupegos/api/strict"
	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/release/flags"
)

var cpuSet = regexp.MustCompile(`^[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*$`)

// kubelet checks the settings of kubelets. effective is what machines run: the cluster's settings overridden by the pool's.
func (c componentCheck) kubelet(k, effective v1alpha1.Kubelet) {
	c.gates(k.FeatureGates)
	c.args(k.ExtraArgs)
	if problem := flags.Alone(func(name string) bool {
		return slices.ContainsFunc(k.ExtraArgs, func(a v1alpha1.Arg) bool { return a.Name == name && a.Value != "" })
	}); problem != "" {
		c.Add(c.path+".extraArgs", problem, "set both")
	}
	c.config(k.Config, "kubelet.config.k8s.io/v1beta1", "KubeletConfiguration")
	c.reserved("systemReserved", k.SystemReserved)
	c.reserved("kubeReserved", k.KubeReserved)
	c.eviction(k, effective)
	if k.ReservedSystemCPUs != "" && !cpuSet.MatchString(k.ReservedSystemCPUs) {
		c.Add(c.path+".reservedSystemCPUs", strict.Quote(k.ReservedSystemCPUs)+" is not a set of CPUs", `write it like "0-1,4"`)
	}
	if k.ContainerLogMaxSize != "" {
		if q, err := resource.ParseQuantity(k.ContainerLogMaxSize); err != nil || q.Sign() <= 0 {
			c.Add(c.path+".containerLogMaxSize", strict.Quote(k.ContainerLogMaxSize)+" is not a size", `write it like "10Mi"`)
		}
	}
	c.reservations(k, effective)
}

// reservations checks what managers need of the settings that machines run. It reports a problem at the field of k that causes it, which may be another
// one than the policy: a pool's reservation replaces the cluster's.
func (c componentCheck) reservations(k, effective v1alpha1.Kubelet) {
	reserves := effective.ReservedSystemCPUs != "" || isReserved(effective.SystemReserved["cpu"]) || isReserved(effective.KubeReserved["cpu"])
	if effective.CPUManagerPolicy == "static" && !reserves {
		c.addAtFirst("cpuManagerPolicy static needs a reservation of CPU: kubelet does not start without one", "set systemReserved.cpu, kubeReserved.cpu or reservedSystemCPUs",
			field{"cpuManagerPolicy", k.CPUManagerPolicy != ""}, field{"systemReserved", k.SystemReserved != nil}, field{"kubeReserved", k.KubeReserved != nil})
	}
	if effective.MemoryManagerPolicy == "Static" && !reservedMemory.MatchString(effective.Config) {
		c.addAtFirst("memoryManagerPolicy Static needs a reservation of memory for each NUMA node: kubelet does not start without one", "set reservedMemory in config",
			field{"memoryManagerPolicy", k.MemoryManagerPolicy != ""}, field{"config", k.Config != ""})
	}
}

var reservedMemory = regexp.MustCompile(`(?m)^reservedMemory:`)

// field is a field of a component's settings.
type field struct {
	name  string
	given bool
}

// addAtFirst reports a problem at the first field that is given. If none is, the settings of another level have caused it, and it is reported there.
func (c componentCheck) addAtFirst(problem, hint string, fields ...field) {
	if at := slices.IndexFunc(fields, func(f field) bool { return f.given }); at >= 0 {
		c.Add(c.path+"."+fields[at].name, problem, hint)
	}
}

// isReserved reports whether a quantity reserves something.
func isReserved(text string) bool {
	q, err := resource.ParseQuantity(text)
	return text != "" && (err != nil || q.Sign() > 0) // reserved reports the error
}

// reserved checks a reservation.
func (c componentCheck) reserved(key string, list map[string]string) {
	known := []string{"cpu", "memory", "ephemeral-storage", "pid"}
	for _, name := range slices.Sorted(maps.Keys(list)) {
		at := c.path + "." + key + "[" + strict.Clip(name) + "]"
		if !slices.Contains(known, name) {
			hint := "known: " + strings.Join(known, ", ")
			if near := fail.Nearest(name, known); near != "" {
				hint = fmt.Sprintf("did you mean %q?", near)
			}
			c.Add(at, "kubelet reserves no "+strict.Quote(name), hint)
			continue
		}
		if q, err := resource.ParseQuantity(list[name]); err != nil || q.Sign() < 0 {
			c.Add(at, strict.Quote(list[name])+" is not a quantity", `write it like "500m" or "1Gi"`)
		}
	}
}

// eviction checks the thresholds of evictions.
func (c componentCheck) eviction(k, effective v1alpha1.Kubelet) {
	known := func(key, signal string) bool {
		if slices.Contains(flags.EvictionSignals(), signal) {
			return true
		}
		hint := "known: " + strings.Join(flags.EvictionSignals(), ", ")
		if near := fail.Nearest(signal, flags.EvictionSignals()); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
		c.Add(c.path+"."+key+"["+strict.Clip(signal)+"]", strict.Quote(signal)+" is not a signal of kubelet", hint)
		return false
	}
	for key, list := range map[string]map[string]string{"evictionHard": k.EvictionHard, "evictionSoft": k.EvictionSoft} {
		for _, signal := range slices.Sorted(maps.Keys(list)) {
			if known(key, signal) && !isThreshold(list[signal]) {
				c.Add(c.path+"."+key+"["+signal+"]", strict.Quote(list[signal])+" is neither a quantity nor a percentage", `write it like "200Mi" or "10%"`)
			}
		}
	}
	for _, signal := range slices.Sorted(maps.Keys(k.EvictionSoftGracePeriod)) {
		const key = "evictionSoftGracePeriod"
		if !known(key, signal) {
			continue
		}
		if d, err := time.ParseDuration(k.EvictionSoftGracePeriod[signal]); err != nil || d < 0 {
			c.Add(c.path+"."+key+"["+signal+"]", strict.Quote(k.EvictionSoftGracePeriod[signal])+" is not a time", `write it like "1m30s"`)
		}
	}
	for _, signal := range slices.Sorted(maps.Keys(effective.EvictionSoft)) {
		if effective.EvictionSoftGracePeriod[signal] == "" {
			c.addAtFirst("the threshold of "+strict.Quote(signal)+" has no time", "set evictionSoftGracePeriod["+strict.Clip(signal)+"]",
				field{"evictionSoft[" + strict.Clip(signal) + "]", k.EvictionSoft != nil}, field{"evictionSoftGracePeriod", k.EvictionSoftGracePeriod != nil})
		}
	}
	for _, signal := range slices.Sorted(maps.Keys(effective.EvictionSoftGracePeriod)) {
		if effective.EvictionSoft[signal] == "" {
			c.addAtFirst("the time of "+strict.Quote(signal)+" has no threshold", "set evictionSoft["+strict.Clip(signal)+"]",
				field{"evictionSoftGracePeriod[" + strict.Clip(signal) + "]", k.EvictionSoftGracePeriod != nil}, field{"evictionSoft", k.EvictionSoft != nil})
		}
	}
}

// isThreshold reports whether kubelet accepts a text as a threshold.
func isThreshold(s string) bool {
	if percent, ok := strings.CutSuffix(s, "%"); ok {
		p, err := strconv.ParseFloat(percent, 64)
		return err == nil && p >= 0 && p <= 100
	}
	q, err := resource.ParseQuantity(s)
	return err == nil && q.Sign() >= 0
}
