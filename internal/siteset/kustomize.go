package siteset

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	k8syaml "sigs.k8s.io/yaml"

	"github.com/naupegos/naupegos/internal/fail"
)

// Limits of what kustomize reads to build one kustomization: a directory counts each time another one refers to it, and an alias counts as the values it stands for.
const (
	maxBuilds = 1000
	maxRead   = 64 << 20
	maxNodes  = 1_000_000
)

// kustomizations are the file names that kustomize looks for in a directory.
var kustomizations = []string{"kustomization.yaml", "kustomization.yml", "Kustomization"}

// build builds the kustomization in a directory of a set. Nothing outside of the set is read, and nothing is fetched: kustomize's loader fetches every URL and
// clones every repository that a kustomization names, in this process, so it gets only kustomizations that this package wrote.
func build(fs files, dir string) (_ []byte, err error) {
	defer func() { // kustomize follows pointers that a kustomization leaves empty
		if why := recover(); why != nil {
			err = fail.New(fail.Invalid, "build the kustomization: it holds an empty item or value where kustomize expects one (%v)", why).At(path.Join(dir, "kustomization.yaml"))
		}
	}()
	r := &rewriter{fs: fs, out: files{}, cost: map[string]cost{}}
	if !r.holds(dir) {
		return nil, fail.New(fail.Invalid, "the directory has no kustomization.yaml").At(dir).Do("to build a directory below it, write kustomize: TOP//DIRECTORY")
	}
	if _, err := r.directory(dir, nil); err != nil {
		return nil, err
	}
	mem := filesys.MakeFsInMemory()
	for name, data := range fs {
		if slices.Contains(kustomizations, path.Base(name)) {
			if data = r.out[name]; data == nil { // no other one refers to its directory
				continue
			}
		}
		if err := mem.WriteFile("/set/"+name, data); err != nil {
			return nil, fail.Wrap(fail.Internal, err, "build the kustomization")
		}
	}
	o := krusty.MakeDefaultOptions()
	o.LoadRestrictions, o.PluginConfig = types.LoadRestrictionsRootOnly, types.DisabledPluginConfig()
	all, err := krusty.MakeKustomizer(o).Run(mem, path.Join("/set", dir))
	if err != nil {
		e := fail.New(fail.Invalid, "build the kustomization: %s", strings.ReplaceAll(strings.Join(strings.Fields(err.Error()), " "), "/set/", ""))
		if strings.Contains(e.What, "missing metadata.name") {
			return nil, e.Do("give the object a metadata.name: a plan knows objects by their names, so generateName has no place in it")
		}
		return nil, e
	}
	out, err := all.AsYaml()
	if err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "build the kustomization")
	}
	return out, nil
}

// rewriter writes the kustomizations of a set again, as kustomize's own parser reads them, with local paths only.
type rewriter struct {
	fs   files
	out  files // the kustomizations that were written
	cost map[string]cost
}

// cost is the amount that kustomize reads to build a directory.
type cost struct{ builds, bytes int }

func (c *cost) add(more cost) { c.builds, c.bytes = c.builds+more.builds, c.bytes+more.bytes }

// holds reports whether a directory has a kustomization.
func (r *rewriter) holds(dir string) bool {
	return slices.ContainsFunc(kustomizations, func(n string) bool { return r.fs[path.Join(dir, n)] != nil })
}

// directory rewrites the kustomization of a directory and of those below it. above are the directories that refer to it.
func (r *rewriter) directory(dir string, above []string) (cost, error) {
	if known, ok := r.cost[dir]; ok {
		return known, nil
	}
	if slices.Contains(above, dir) {
		return cost{}, fail.New(fail.Invalid, "kustomization %s refers to itself: %s", path.Join(dir, "."), strings.Join(append(above, dir), " -> "))
	}
	total := cost{builds: 1}
	for _, n := range kustomizations {
		name := path.Join(dir, n)
		if r.fs[name] == nil {
			continue
		}
		var k types.Kustomization
		if err := bounded(name, r.fs[name]); err != nil {
			return cost{}, err
		}
		if err := k.Unmarshal(r.fs[name]); err != nil {
			return cost{}, fail.New(fail.Invalid, "read the kustomization: %s", strings.Join(strings.Fields(err.Error()), " ")).At(name)
		}
		k.FixKustomization()
		if err := refusePlugins(name, &k); err != nil {
			return cost{}, err
		}
		l := &localizer{rewriter: r, name: name, dir: dir, above: append(slices.Clone(above), dir), cost: total}
		l.kustomization(&k)
		if l.err != nil {
			return cost{}, l.err
		}
		written, err := k8syaml.Marshal(k)
		if err != nil {
			return cost{}, fail.Wrap(fail.Internal, err, "write the kustomization").At(name)
		}
		r.out[name], total = written, l.cost
	}
	if total.builds > maxBuilds || total.bytes > maxRead {
		return cost{}, fail.New(fail.Invalid, "building the kustomization %s reads %d kustomizations and %d MiB; %d and %d are allowed", path.Join(dir, "."), total.builds, total.bytes>>20, maxBuilds, maxRead>>20)
	}
	r.cost[dir] = total
	return total, nil
}

// refusePlugins refuses fields whose files are programs' configuration: these name further files, and may fetch them.
func refusePlugins(name string, k *types.Kustomization) error {
	for field, used := range map[string]bool{"generators": len(k.Generators) > 0, "transformers": len(k.Transformers) > 0, "validators": len(k.Validators) > 0} {
		if used {
			return fail.New(fail.Refused, "%s are not supported", field).At(name).Do("use kustomize's own fields, such as configMapGenerator, patches, labels, replacements")
		}
	}
	if len(k.HelmCharts) > 0 || len(k.HelmChartInflationGenerator) > 0 || k.HelmGlobals != nil {
		return fail.New(fail.Refused, "a kustomization that renders Helm charts is not built").At(name).Do("list the chart in spec.charts")
	}
	return nil
}

// localizer makes every path of one kustomization local.
type localizer struct {
	*rewriter
	name, dir string
	above     []string
	cost      cost
	err       error // the first one
}

func (l *localizer) kustomization(k *types.Kustomization) {
	for _, list := range [][]string{k.Resources, k.Components, k.Crds, k.Configurations} {
		for i := range list {
			list[i] = l.parsed(list[i])
		}
	}
	for i, p := range k.PatchesStrategicMerge { //nolint:staticcheck // deprecated, but kustomizations have it
		if text := string(p); strings.Contains(text, "\n") || strings.HasPrefix(strings.TrimSpace(text), "{") {
			l.bounded([]byte(text)) // the patch itself
		} else {
			k.PatchesStrategicMerge[i] = types.PatchStrategicMerge(l.parsed(text)) //nolint:staticcheck // as above
		}
	}
	for _, list := range [][]types.Patch{k.Patches, k.PatchesJson6902} { //nolint:staticcheck // as above
		for i := range list {
			l.bounded([]byte(list[i].Patch))
			if list[i].Path != "" {
				list[i].Path = l.parsed(list[i].Path)
			}
		}
	}
	for i := range k.Replacements {
		if p := &k.Replacements[i].Path; *p != "" {
			*p = l.parsed(*p)
		}
	}
	for i := range k.ConfigMapGenerator {
		l.pairs(&k.ConfigMapGenerator[i].KvPairSources)
	}
	for i := range k.SecretGenerator {
		l.pairs(&k.SecretGenerator[i].KvPairSources)
	}
	if p, ok := k.OpenAPI["path"]; ok {
		k.OpenAPI["path"] = l.parsed(p)
	}
}

// parsed returns the local path of a file that kustomize parses, or of a directory.
func (l *localizer) parsed(p string) string {
	out := l.local(p)
	l.bounded(l.fs[path.Join(l.dir, p)])
	return out
}

func (l *localizer) bounded(text []byte) {
	if l.err == nil {
		l.err = bounded(l.name, text)
	}
}

func (l *localizer) pairs(s *types.KvPairSources) {
	for i, p := range s.FileSources {
		if key, file, ok := strings.Cut(p, "="); ok {
			s.FileSources[i] = key + "=" + l.local(file)
		} else {
			s.FileSources[i] = l.local(p)
		}
	}
	for i := range s.EnvSources {
		s.EnvSources[i] = l.local(s.EnvSources[i])
	}
}

// local returns the path of a file or directory of the set in a form that can be neither a URL nor a repository's address.
func (l *localizer) local(p string) string {
	at := path.Join(l.dir, p)
	if at == "." {
		at = ""
	}
	switch _, file := l.fs[at]; {
	case l.err != nil:
	case p == "" || path.IsAbs(p) || at == ".." || strings.HasPrefix(at, "../"):
		l.refuse(p)
	case file:
		l.cost.bytes += len(l.fs[at])
	case l.holds(at):
		more, err := l.directory(at, l.above)
		l.cost.add(more)
		l.err = err
	default:
		l.refuse(p)
	}
	return "./" + path.Clean(p)
}

func (l *localizer) refuse(p string) {
	where := ""
	if before, _, ok := strings.Cut(string(l.fs[l.name]), p); ok && p != "" {
		where = fmt.Sprintf("line %d: ", strings.Count(before, "\n")+1)
	}
	l.err = fail.New(fail.Refused, "%s%q is not in the directory", where, p).At(l.name).Do("put it into the directory, or name a directory above both (kustomize: TOP//DIRECTORY): nothing outside of it is read, and nothing is fetched")
}

// bounded refuses YAML whose aliases stand for more than a cluster could hold: kustomize writes them out.
func bounded(name string, data []byte) error {
	if !bytes.Contains(data, []byte("*")) {
		return nil
	}
	for dec := yaml.NewDecoder(bytes.NewReader(data)); ; {
		var n yaml.Node
		if err := dec.Decode(&n); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fail.Wrap(fail.Invalid, err, "read YAML").At(name)
		}
		if writtenOut(&n, map[*yaml.Node]int{}) > maxNodes {
			return fail.New(fail.Invalid, "its aliases stand for more than %d values", maxNodes).At(name)
		}
	}
}

// writtenOut counts the values of a node with its aliases written out, up to a little more than maxNodes.
func writtenOut(n *yaml.Node, known map[*yaml.Node]int) int {
	if count, ok := known[n]; ok {
		return count
	}
	known[n] = maxNodes + 1 // an alias inside its own anchor
	count := 1
	if n.Kind == yaml.AliasNode {
		count = writtenOut(n.Alias, known)
	}
	for _, c := range n.Content {
		if count = min(count+writtenOut(c, known), maxNodes+1); count > maxNodes {
			break
		}
	}
	known[n] = count
	return count
}
