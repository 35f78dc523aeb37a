package siteset

import (
	"bytes"
	"maps"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/naupegos/naupegos/internal/fail"
)

// build builds the kustomization of a directory. Nothing outside of the directory is read, and nothing is fetched.
func build(fs files) ([]byte, error) {
	if !slices.ContainsFunc(kustomizations, func(n string) bool { return fs[n] != nil }) {
		return nil, fail.New(fail.Invalid, "the directory has no kustomization.yaml")
	}
	for _, name := range slices.Sorted(maps.Keys(fs)) {
		if err := checkPaths(fs, name); err != nil {
			return nil, err
		}
	}
	mem := filesys.MakeFsInMemory()
	for name, data := range fs {
		if err := mem.WriteFile("/set/"+name, data); err != nil {
			return nil, fail.Wrap(fail.Internal, err, "build the kustomization")
		}
	}
	o := krusty.MakeDefaultOptions()
	o.LoadRestrictions, o.PluginConfig = types.LoadRestrictionsRootOnly, types.DisabledPluginConfig()
	all, err := krusty.MakeKustomizer(o).Run(mem, "/set")
	if err != nil {
		return nil, fail.New(fail.Invalid, "build the kustomization: %s", strings.ReplaceAll(strings.Join(strings.Fields(err.Error()), " "), "/set/", ""))
	}
	out, err := all.AsYaml()
	if err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "build the kustomization")
	}
	return out, nil
}

var kustomizations = []string{"kustomization.yaml", "kustomization.yml", "Kustomization"}

// pathKeys are the keys of kustomizations, and of the configuration of their generators and transformers, whose values name files or directories.
var pathKeys = []string{"resources", "bases", "components", "crds", "configurations", "generators", "transformers", "validators", "patchesStrategicMerge",
	"path", "files", "envs", "env", "valuesFile", "additionalValuesFiles", "repo", "paths"}

// checkPaths refuses a file of a kustomization that names something outside of the directory: kustomize would fetch it.
func checkPaths(fs files, name string) error {
	if !slices.Contains([]string{".yaml", ".yml", ".json", ""}, path.Ext(name)) {
		return nil
	}
	own := slices.Contains(kustomizations, path.Base(name))
	for dec := yaml.NewDecoder(bytes.NewReader(fs[name])); ; {
		var n yaml.Node
		if err := dec.Decode(&n); err != nil {
			return nil //nolint:nilerr // kustomize reports what is no YAML, and end of file is no error
		}
		var head struct {
			APIVersion string `yaml:"apiVersion"`
		}
		if n.Decode(&head) != nil || !own && !strings.HasPrefix(head.APIVersion, "kustomize.config.k8s.io/") && head.APIVersion != "builtin" {
			continue
		}
		if err := checkNode(fs, name, "", &n); err != nil {
			return err
		}
	}
}

func checkNode(fs files, name, key string, n *yaml.Node) error {
	switch n.Kind {
	case yaml.ScalarNode:
		if slices.Contains(pathKeys, key) {
			return checkPath(fs, name, key, n)
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if k := n.Content[i].Value; k == "helmCharts" || k == "helmChartInflationGenerator" {
				return fail.New(fail.Refused, "line %d: a kustomization that renders Helm charts is not built", n.Content[i].Line).At(name).Do("list the chart in spec.charts")
			}
			below := n.Content[i].Value
			if key == "patches" && below == "patch" || below == "literals" {
				continue
			}
			if err := checkNode(fs, name, below, n.Content[i+1]); err != nil {
				return err
			}
		}
	default:
		for _, c := range n.Content {
			if err := checkNode(fs, name, key, c); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkPath(fs files, name, key string, n *yaml.Node) error {
	p := n.Value
	if strings.Contains(p, "\n") || strings.HasPrefix(strings.TrimSpace(p), "{") || p == "" { // written out in its place
		return nil
	}
	if key == "files" {
		if _, after, ok := strings.Cut(p, "="); ok {
			p = after
		}
	}
	if key == "path" && strings.HasPrefix(p, "/") { // of a JSON patch
		return nil
	}
	at := path.Join(path.Dir(name), p)
	inside := !path.IsAbs(p) && at != ".." && !strings.HasPrefix(at, "../")
	for f := range fs {
		if inside && (f == at || at == "." || strings.HasPrefix(f, at+"/")) {
			return nil
		}
	}
	if key == "path" && !strings.Contains(p, "/") && !strings.Contains(p, ":") { // a field path of a replacement or transformer
		return nil
	}
	return fail.New(fail.Refused, "line %d: %q is not in the directory", n.Line, n.Value).At(name).Do("put it into the directory: nothing outside of it is read, and nothing is fetched")
}
