package validation

import (
	"net/netip"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/naupegos/naupegos/api/strict"
	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/place"
)

// ParseServerPolicy parses a policy strictly. The name is the file's, for messages. The error is an Errors with all problems.
func ParseServerPolicy(name string, data []byte) (*v1alpha1.ServerPolicy, error) {
	r, p := strict.New(name), &v1alpha1.ServerPolicy{}
	if root := r.Document(data); root != nil && isPolicy(r, root) {
		r.Decode(root, p)
		p.Default()
		checkServerPolicy(p, r)
	}
	if errs := r.Sorted(); len(errs) > 0 {
		return nil, errs
	}
	if len(p.Providers) == 0 {
		p.Providers = v1alpha1.DefaultServerPolicy().Providers
	}
	return p, nil
}

// isPolicy reports whether root is a mapping. If it is not, it adds a finding that says what a policy looks like.
func isPolicy(r *findings, root *yaml.Node) bool {
	if root.Kind == yaml.MappingNode {
		return true
	}
	r.AddAt(r.Where[""], "", "expected a mapping with apiVersion, kind: ServerPolicy, providers and clusters, got "+strict.Describe(root), "")
	return false
}

var policyRelease = regexp.MustCompile(`^v1\.[0-9]{1,3}(\.[0-9]{1,3})?$`)

func checkServerPolicy(p *v1alpha1.ServerPolicy, r *findings) {
	checkTags(r, "", reflect.ValueOf(p).Elem())
	checkProviders(r, "providers", p.Providers)
	for i, text := range p.BMCNetworks {
		if n, err := netip.ParsePrefix(text); err != nil || n != n.Masked() {
			r.Add(strict.Item("bmcNetworks", i), strict.Quote(text)+" is not a network", "as 10.9.0.0/24")
		}
	}
	for i := range p.Clusters {
		checkClusterPolicy(&p.Clusters[i], r, strict.Item("clusters", i))
	}
}

func checkProviders(r *findings, at string, names []string) {
	for i, name := range names {
		if !slices.Contains(v1alpha1.Providers(), name) {
			r.Add(strict.Item(at, i), strict.Quote(name)+" is not a provider", "choose from "+strings.Join(v1alpha1.Providers(), ", "))
		}
	}
}

// CheckProviders refuses unknown names of providers.
func CheckProviders(names []string) error {
	for _, name := range names {
		if !slices.Contains(v1alpha1.Providers(), name) {
			return fail.New(fail.Invalid, "%q is not a provider", name).Do("choose from %s", strings.Join(v1alpha1.Providers(), ", "))
		}
	}
	return nil
}

func checkClusterPolicy(c *v1alpha1.ClusterPolicy, r *findings, at string) {
	for i, name := range c.Names {
		if _, err := path.Match(name, ""); err != nil || name == "" {
			r.Add(strict.Item(at+".names", i), strict.Quote(name)+" is not a name or a pattern", `as prod-a, or "prod-*"`)
		}
	}
	for i, text := range c.Endpoints {
		if _, err := place.ParsePlace(text); err != nil {
			r.Add(strict.Item(at+".endpoints", i), strict.Quote(text)+" "+err.Error(), "")
		}
	}
	for i, text := range c.Releases {
		if !policyRelease.MatchString(text) {
			r.Add(strict.Item(at+".releases", i), strict.Quote(text)+" is not a release", "as v1.37 or v1.37.2")
		}
	}
	for i, dir := range c.BackupDirectories {
		if !plainPath(dir) {
			r.Add(strict.Item(at+".backupDirectories", i), strict.Quote(dir)+" is not an absolute path", "as /srv/backups")
		}
	}
	if _, _, err := c.Ports(); err != nil {
		r.Add(at+".autoscalePorts", strict.Quote(c.AutoscalePorts)+" "+err.Error(), "as 8086-8185")
	}
}
