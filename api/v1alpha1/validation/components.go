package validation

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"path"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/naupegos/naupegos/api/strict"
	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/release"
	"github.com/naupegos/naupegos/internal/release/flags"
)

// componentCheck checks the settings of one program against those that the program of the release accepts.
type componentCheck struct {
	*findings
	program string
	path    string // of the settings in the document
	table   flags.Table
	doc     *v1alpha1.Cluster
}

// checkComponents checks the settings of Kubernetes' and etcd's programs against the tables of the release.
func checkComponents(c *v1alpha1.Cluster, r *findings) {
	k := c.Spec.Kubernetes
	table, ok := flags.Of(release.MinorOf(k.Version))
	if !ok {
		return // reported as the version's fault
	}
	of := func(program, path string) componentCheck { return componentCheck{r, program, path, table, c} }
	const spec = "spec.kubernetes."
	of(flags.APIServer, spec+"apiServer").apiServer(k.APIServer)
	m := of(flags.ControllerManager, spec+"controllerManager")
	m.gates(k.ControllerManager.FeatureGates)
	m.args(k.ControllerManager.ExtraArgs)
	s := of(flags.Scheduler, spec+"scheduler")
	s.gates(k.Scheduler.FeatureGates)
	s.config(k.Scheduler.Config, "kubescheduler.config.k8s.io/v1", "KubeSchedulerConfiguration")
	s.args(k.Scheduler.ExtraArgs)
	of(flags.Kubelet, spec+"kubelet").kubelet(k.Kubelet, k.Kubelet)
	p := of(flags.KubeProxy, spec+"kubeProxy")
	p.gates(k.KubeProxy.FeatureGates)
	p.config(k.KubeProxy.Config, "kubeproxy.config.k8s.io/v1alpha1", "KubeProxyConfiguration")
	of(flags.Etcd, "spec.etcd").etcd(c.Spec.Etcd)
	for i, pool := range c.Spec.Workers {
		of := of(flags.Kubelet, strict.Item("spec.workers", i)+".kubelet")
		if t, ok := flags.Of(release.MinorOf(pool.Version)); ok { // otherwise the version is the cluster's, or has been reported
			of.table = t
		}
		of.kubelet(pool.Kubelet, k.Kubelet.For(pool))
	}
}

// gates checks feature gates.
func (c componentCheck) gates(gates map[string]bool) {
	for _, name := range slices.Sorted(maps.Keys(gates)) {
		at := c.path + ".featureGates[" + strict.Clip(name) + "]"
		g, ok := c.table.Gate(c.program, name)
		switch {
		case !ok:
			c.unknown(at, "feature gate", name, c.table.Gates(c.program), func(t flags.Table) bool { _, had := t.Gate(c.program, name); return had })
		case g.Locked && gates[name] != g.Default:
			c.Add(at, fmt.Sprintf("Kubernetes %s has locked the feature gate %s to %v", c.table.Minor, strict.Quote(name), g.Default), "remove it")
		}
	}
	for _, u := range c.table.Unmet(c.program, gates) {
		at, problem, hint := u.Explain(gates)
		if at != "" {
			at = "[" + strict.Clip(at) + "]"
		}
		c.Add(c.path+".featureGates"+at, problem, hint)
	}
}

// unknown reports a name that the release does not know: dropped since an older minor, not added yet, or misspelt.
func (c componentCheck) unknown(at, what, name string, known []string, had func(flags.Table) bool) {
	hint := ""
	if near := fail.Nearest(name, known); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	for _, minor := range v1alpha1.SupportedMinors() {
		t, ok := flags.Of(minor)
		if !ok || !had(t) {
			continue
		}
		if release.Compare("v"+minor+".0", "v"+c.table.Minor+".0") < 0 {
			c.Add(at, fmt.Sprintf("%s of Kubernetes %s no longer has the %s %s", c.program, c.table.Minor, what, strict.Quote(name)), "remove it: it stands in the way of "+c.table.Minor)
		} else {
			c.Add(at, fmt.Sprintf("%s of Kubernetes %s does not have the %s %s yet", c.program, c.table.Minor, what, strict.Quote(name)), "Kubernetes "+minor+" has it")
		}
		return
	}
	c.Add(at, fmt.Sprintf("%s of Kubernetes %s has no %s %s", c.program, c.table.Minor, what, strict.Quote(name)), hint)
}

// args checks flags.
func (c componentCheck) args(args []v1alpha1.Arg) {
	first, dirs := map[string]int{}, map[string]bool{}
	for _, f := range c.doc.SettingsOf(v1alpha1.RoleControlPlane, "").Files {
		dirs[path.Dir(f.Path)] = true
	}
	for i, a := range args {
		at := strict.Item(c.path+".extraArgs", i)
		if a.Name == "" {
			continue // reported as required
		}
		f, ok := c.table.Flag(c.program, a.Name)
		if !ok && strings.Trim(a.Name, "-") != a.Name || strings.Contains(a.Name, "=") {
			name, value, _ := strings.Cut(strings.TrimLeft(a.Name, "-"), "=")
			hint := "write name: " + strict.Clip(name)
			if value != "" {
				hint += ", value: " + strict.Quote(value)
			}
			c.Add(at+".name", strict.Quote(a.Name)+" is not the plain name of a flag", hint)
			continue
		}
		if !ok {
			c.unknown(at+".name", "flag", a.Name, c.table.Flags(c.program), func(t flags.Table) bool { _, had := t.Flag(c.program, a.Name); return had })
			continue
		}
		if field := flags.Instead(c.program, a.Name); field != "" {
			c.taken(at+".name", "the flag "+strict.Quote(a.Name), field)
			continue
		}
		if j, again := first[a.Name]; again && !f.Repeats(c.program) {
			c.Add(at+".name", fmt.Sprintf("the flag %s takes one value, and extraArgs[%d] gives it already", strict.Quote(a.Name), j), "keep one of them")
		}
		first[a.Name] = i
		if problem := cmp.Or(f.Check(a.Value), flags.Among(c.program, a.Name, a.Value)); problem != "" {
			c.Add(at+".value", fmt.Sprintf("the flag %s: %s, got %s", a.Name, problem, strict.Quote(a.Value)), "")
		} else if problem := flags.Unwritable(c.program, a.Value); problem != "" {
			c.Add(at+".value", problem, "")
		} else if problem, hint := flags.Unseen(c.program, a.Name, a.Value, dirs, c.doc.Spec.Etcd.Mode == v1alpha1.EtcdService); problem != "" {
			c.Add(at+".value", fmt.Sprintf("the flag %s: %s", a.Name, problem), hint)
		}
	}
}

// taken reports a setting that has a field of its own, or that documents may not set for a reason.
func (c componentCheck) taken(at, what, instead string) {
	if strings.HasPrefix(instead, "spec.") {
		c.Add(at, what+" has a field of its own", "use "+instead)
		return
	}
	c.Add(at, what+" is not yours to set: "+instead, "remove it")
}

// apiServer checks the settings of API servers.
func (c componentCheck) apiServer(s v1alpha1.APIServer) {
	c.gates(s.FeatureGates)
	c.args(s.ExtraArgs)
	for i, san := range s.CertSANs {
		name := strings.TrimPrefix(san, "*.")
		if net.ParseIP(san) == nil && len(validation.IsDNS1123Subdomain(strings.ToLower(name))) > 0 {
			c.Add(strict.Item(c.path+".certSANs", i), strict.Quote(san)+" is neither a DNS name nor an IP address", "")
		}
	}
	for key, list := range map[string][]string{"enableAdmissionPlugins": s.EnableAdmissionPlugins, "disableAdmissionPlugins": s.DisableAdmissionPlugins} {
		for i, name := range list {
			at := strict.Item(c.path+"."+key, i)
			switch {
			case !c.table.Plugin(name):
				c.unknown(at, "admission plugin", name, c.table.Plugins(), func(t flags.Table) bool { return t.Plugin(name) })
			case key == "disableAdmissionPlugins" && name == "NodeRestriction":
				c.Add(at, "the admission plugin NodeRestriction keeps nodes from changing each other: Naupegos sets it", "remove it")
			case key == "disableAdmissionPlugins" && slices.Contains(s.EnableAdmissionPlugins, name):
				c.Add(at, "the admission plugin "+name+" is enabled, too", "keep one of them")
			}
		}
	}
	c.admissionConfig(s.AdmissionConfig)
	for _, version := range slices.Sorted(maps.Keys(s.RuntimeConfig)) {
		if problem, hint := c.servable(version); problem != "" {
			c.Add(c.path+".runtimeConfig["+strict.Clip(version)+"]", problem, hint)
		}
	}
	for _, resource := range slices.Sorted(maps.Keys(s.WatchCacheSizes)) {
		at := c.path + ".watchCacheSizes[" + strict.Clip(resource) + "]"
		switch n := s.WatchCacheSizes[resource]; {
		case !regexp.MustCompile(`^[a-z]+(\.[a-z0-9.-]+)?$`).MatchString(resource):
			c.Add(at, strict.Quote(resource)+" is not a resource", `write it like "pods" or "deployments.apps"`)
		case n < 0 || n > 1_000_000:
			c.Add(at, fmt.Sprintf("%d is not between 0 and 1000000", n), "")
		}
	}
	if w := s.AuditWebhook; w != nil {
		checkWebhook(c.findings, c.path+".auditWebhook", w.URL, w.CA, w.Auth)
	}
}

// servable reports why the release can't serve a key of runtimeConfig; empty if it can.
func (c componentCheck) servable(key string) (problem, hint string) {
	if slices.Contains([]string{"api/all", "api/ga", "api/beta", "api/alpha"}, key) || c.table.API(key) {
		return "", ""
	}
	if near := fail.Nearest(key, c.table.APIs()); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	return "Kubernetes " + c.table.Minor + " has no API version " + strict.Quote(key), hint
}

// etcd checks the settings of etcd.
func (c componentCheck) etcd(e v1alpha1.Etcd) {
	c.gates(e.FeatureGates)
	c.args(e.ExtraArgs)
	heartbeat, election := e.HeartbeatMilliseconds, e.ElectionMilliseconds
	if heartbeat == 0 {
		heartbeat = 100
	}
	if election == 0 {
		election = 1000
	}
	if election < 5*heartbeat {
		at := c.path + ".electionMilliseconds"
		if e.ElectionMilliseconds == 0 {
			at = c.path + ".heartbeatMilliseconds"
		}
		c.Add(at, fmt.Sprintf("an election after %d ms is less than five heartbeats of %d ms", election, heartbeat), fmt.Sprintf("set electionMilliseconds to %d or more", 5*heartbeat),
			c.path+".electionMilliseconds", c.path+".heartbeatMilliseconds")
	}
}
