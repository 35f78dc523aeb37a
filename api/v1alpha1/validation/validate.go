package validation

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/naupegos/naupegos/api/strict"
	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/expression"
)

// Validate checks a defaulted document and returns all problems, without lines; nil if there are none.
func Validate(c *v1alpha1.Cluster) v1alpha1.Errors {
	r := &findings{}
	check(c, r)
	return r.Sorted()
}

// check first checks each field by itself and then how fields fit together, so that one mistake is one finding.
func check(c *v1alpha1.Cluster, r *findings) {
	checkTags(r, "", reflect.ValueOf(c).Elem())
	checkProvider(c, r)
	checkKubernetes(c, r)
	checkComponents(c, r)
	checkEndpoint(c, r)
	checkNodes(c, r)
	checkMachineSettings(c, r)
	checkProxy(c, r)
	checkRegistries(c, r)
	checkImageRegistry(c.Spec.Registry, r)
	checkSecurity(c, r)
	checkIdentity(c.Spec.Identity, r, c.Spec.Kubernetes.DNSDomain)
	checkPodSecurity(c, r)
	checkAddons(c, r)
	checkSets(c, r)
	checkPKI(c, r)
	checkAccess(c, r)
	checkCloud(c, r)
	checkWireGuard(c, r)
	checkBackup(c, r)
	checkTimeouts(c, r)
	checkUnattended(c, r)
	checkUpdates(c, r)
	checkRollouts(c, r)
	if h := c.Spec.Provider.Hosts; h != nil {
		checkHosts(c, r, h)
	}
	if m := c.Spec.Provider.Metal; m != nil {
		checkMetal(c, r, m)
	}
	checkNames(c, r)
	checkNetworks(c, r)
	checkCapacity(c, r)
	r.Texts(reflect.ValueOf(c).Elem()) // last: the other checks say more
}

// checkTags checks what the struct tags require: required fields, known values, limits.
func checkTags(r *findings, path string, v reflect.Value) {
	for _, f := range strict.FieldsOf(v.Type()) {
		p, fv := strict.Join(path, f.Key), v.Field(f.Index)
		if f.Required && fv.IsZero() && fv.Kind() != reflect.Struct {
			r.Add(p, "is required", "")
			continue
		}
		for fv.Kind() == reflect.Pointer && !fv.IsNil() {
			fv = fv.Elem()
		}
		checkValue(r, p, fv, f)
	}
}

// checkValue checks a value by its tags, and everything below it.
func checkValue(r *findings, p string, v reflect.Value, f strict.Field) {
	var problem, hint string
	switch v.Kind() {
	case reflect.String:
		if v.String() != "" {
			problem, hint = f.CheckEnum(v.String())
		}
	case reflect.Int:
		if v.Int() != 0 || f.Default != "" { // 0 without a default means left out
			problem, hint = f.CheckRange(int(v.Int()))
		}
	case reflect.Slice:
		if n := v.Len(); n < f.MinItems || f.MaxItems > 0 && n > f.MaxItems {
			problem = fmt.Sprintf("has %d items, not between %d and %d", n, f.MinItems, f.MaxItems)
		} else if v.Type().Elem().Kind() == reflect.Struct {
			for i := range n {
				checkTags(r, strict.Item(p, i), v.Index(i))
			}
		}
	case reflect.Struct:
		switch d, ok := v.Interface().(v1alpha1.Duration); {
		case ok && f.Default != "": // a duration without a default has limits of its own
			problem, hint = checkDuration(d)
		case !ok:
			checkTags(r, p, v)
		}
	}
	if problem != "" {
		r.Add(p, problem, hint)
	}
}

func checkDuration(d v1alpha1.Duration) (problem, hint string) {
	if d.Duration >= v1alpha1.MinDuration && d.Duration <= v1alpha1.MaxDuration {
		return "", ""
	}
	return d.String() + " is not between 10s and 24h", ""
}

// checkProvider requires exactly one provider.
func checkProvider(c *v1alpha1.Cluster, r *findings) {
	const names = "keep one of local, hosts, openstack, metal"
	switch set := c.Spec.Provider.Chosen(); {
	case len(set) > 1:
		r.Remark("spec.provider", "names more than one provider", names) // report the problems of each provider, too
	case len(set) == 0:
		r.Add("spec.provider", "no provider is chosen", `give one of local, hosts, openstack, metal; the shortest is "provider: {local: {}}"`)
	}
}

var packageName = regexp.MustCompile(`^[a-z0-9][a-z0-9+.-]*(:[a-z0-9]+)?$`)
var timeOfDay = regexp.MustCompile(`^([01][0-9]|2[0-3]):[0-5][0-9]$`)

// checkUpdates checks the packages, days and times of spec.updates.
func checkUpdates(c *v1alpha1.Cluster, r *findings) {
	os := c.Spec.Updates.OS
	for i, name := range os.Hold {
		if !packageName.MatchString(name) {
			r.Add(strict.Item("spec.updates.os.hold", i), strict.Quote(name)+" is not the name of a package", "")
		}
	}
	if os.Window == nil {
		return
	}
	for i, day := range os.Window.Days {
		if !slices.Contains([]string{"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"}, day) {
			r.Add(strict.Item("spec.updates.os.window.days", i), strict.Quote(day)+" is not a day", "known: Mon, Tue, Wed, Thu, Fri, Sat, Sun")
		}
	}
	for key, at := range map[string]string{"from": os.Window.From, "to": os.Window.To} {
		if at != "" && !timeOfDay.MatchString(at) {
			r.Add("spec.updates.os.window."+key, strict.Quote(at)+" is not a time of the day", `write it as "22:00"`)
		}
	}
}

// checkTimeouts requires that the step limit is at least as long as the waits within a step.
func checkTimeouts(c *v1alpha1.Cluster, r *findings) {
	t := c.Spec.Timeouts
	for _, o := range []struct {
		key string
		d   v1alpha1.Duration
	}{{"machineBoot", t.MachineBoot}, {"nodeReady", t.NodeReady}, {"drain", t.Drain}, {"connect", t.Connect}} {
		if o.d.Duration > t.Step.Duration {
			r.Add("spec.timeouts.step", fmt.Sprintf("%s is less than %s, %s", t.Step, o.key, o.d),
				"leave step out to get the longest of the others", "spec.timeouts."+o.key)
		}
	}
}

// maxUnattended is the maximum interval of unattended checks: anyone who wants them less often can run them by hand.
const maxUnattended = 7 * 24 * time.Hour

// checkUnattended limits the intervals of unattended checks.
func checkUnattended(c *v1alpha1.Cluster, r *findings) {
	u := c.Spec.Unattended
	for _, o := range []struct {
		key string
		d   time.Duration
	}{{"drift", u.Drift.Duration}, {"renew", u.Renew.Duration}, {"repair", u.Repair.Duration}, {"rehearse", u.Rehearse.Duration}} {
		if o.d != 0 && (o.d < v1alpha1.MinDuration || o.d > maxUnattended) {
			r.Add("spec.unattended."+o.key, v1alpha1.Duration{Duration: o.d}.String()+" is not between 10s and 168h", "leave it out if servers should not do that")
		}
	}
	if u.Autoscale && !slices.ContainsFunc(c.Spec.Workers, v1alpha1.Pool.Scales) {
		r.Add("spec.unattended.autoscale", "no pool scales", "give one maxReplicas")
	}
	if u.AutoscalePort != 0 && !u.Autoscale {
		r.Add("spec.unattended.autoscalePort", "nothing listens there", "add autoscale: true, or leave it out")
	}
}

// maxSoak is the maximum time for which an upgrade may stay in its revertible phase.
const maxSoak = 90 * 24 * time.Hour

// checkRollouts checks the conditions and limits of changes to machines.
func checkRollouts(c *v1alpha1.Cluster, r *findings) {
	u := c.Spec.Updates
	if s := u.Soak.Duration; s > maxSoak {
		r.Add("spec.updates.soak", u.Soak.String()+" is longer than 90 days", "leave it out if you decide otherwise when an upgrade is finished")
	}
	if p := c.Spec.Provider; u.Surge() > 0 && (p.Hosts != nil || p.Metal != nil) {
		r.Add("spec.updates.maxSurge", "needs a provider that creates machines, and "+p.Name()+" does not", "remove it", "spec.provider")
	}
	seen := map[string]int{}
	for i, k := range u.Checks {
		path := strict.Item("spec.updates.checks", i)
		if k.Name != "" {
			checkLabelName(r, path+".name", k.Name)
			if first, again := seen[k.Name]; again {
				r.Add(path+".name", fmt.Sprintf("%s is already the name of spec.updates.checks[%d]", strict.Quote(k.Name), first), "")
			}
			seen[k.Name] = i
		}
		if _, err := schema.ParseGroupVersion(k.APIVersion); err != nil {
			r.Add(path+".apiVersion", strict.Quote(k.APIVersion)+" is not a version of an API", `write it like "v1" or "apps/v1"`)
		}
		if k.Namespace != "" {
			checkLabelName(r, path+".namespace", k.Namespace)
		}
		if k.Expression == "" {
			continue // reported as required
		}
		if _, err := expression.Compile(k.Expression); err != nil {
			r.Add(path+".expression", "is no CEL expression: "+err.Error(), "")
		}
	}
}
