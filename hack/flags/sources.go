package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/naupegos/naupegos/internal/release/flags"
)

// moduleDir downloads a module and returns the directory of its sources.
func moduleDir(ctx context.Context, module, version string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", module+"@"+version)
	cmd.Dir = os.TempDir() // outside of this module, whose versions differ
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go mod download %s@%s: %w: %s", module, version, err, out)
	}
	var m struct{ Dir string }
	err = json.Unmarshal(out, &m)
	return m.Dir, err
}

// listedGates returns, by name, the feature gates that the sources of a release list, as lines of the table.
func listedGates(ctx context.Context, version string) (map[string]string, error) {
	dir, err := moduleDir(ctx, "k8s.io/kubernetes", version)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(filepath.Join(dir, "test/compatibility_lifecycle/reference/versioned_feature_list.yaml"))
	if err != nil {
		return nil, err
	}
	var list []struct {
		Name           string `json:"name"`
		VersionedSpecs []struct {
			Default       bool   `json:"default"`
			LockToDefault bool   `json:"lockToDefault"`
			PreRelease    string `json:"preRelease"`
		} `json:"versionedSpecs"`
	}
	if err := yaml.Unmarshal(data, &list); err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, g := range list {
		last := g.VersionedSpecs[len(g.VersionedSpecs)-1]
		stage := strings.ToLower(last.PreRelease)
		if stage == "" {
			stage = "ga"
		}
		if stage == "alpha" || stage == "beta" { // the programs print these in their help
			continue
		}
		out[g.Name] = fmt.Sprintf("%s %s %v", g.Name, stage, last.Default)
		if last.LockToDefault {
			out[g.Name] += " locked"
		}
	}
	return out, nil
}

// gateNeeds returns the feature gates that each feature gate needs, according to the sources of a release.
func gateNeeds(ctx context.Context, version string) (map[string][]string, error) {
	dir, err := moduleDir(ctx, "k8s.io/kubernetes", version)
	if err != nil {
		return nil, err
	}
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, "pkg/features/kube_features.go"), nil, 0)
	if err != nil {
		return nil, err
	}
	out := map[string][]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok || v.Names[0].Name != "defaultKubernetesFeatureGateDependencies" {
			return true
		}
		for _, e := range v.Values[0].(*ast.CompositeLit).Elts {
			pair := e.(*ast.KeyValueExpr)
			for _, needs := range pair.Value.(*ast.CompositeLit).Elts {
				out[gateName(pair.Key)] = append(out[gateName(pair.Key)], gateName(needs))
			}
		}
		return false
	})
	if len(out) < 20 {
		return nil, fmt.Errorf("only %d feature gates of %s need others", len(out), version)
	}
	return out, nil
}

// gateName returns the name of a feature gate's constant, which is that of the gate.
func gateName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.CallExpr: // featuregate.Feature(clientfeatures.X)
		return gateName(e.Args[0])
	}
	return ""
}

var (
	groupName   = regexp.MustCompile(`GroupName\s*=\s*"([a-z0-9.-]*)"`)
	versionName = regexp.MustCompile(`^v[0-9]+((alpha|beta)[0-9]+)?$`)
)

// apiVersions returns the API versions that the sources of a release define.
func apiVersions(ctx context.Context, version string) ([]string, error) {
	dir, err := moduleDir(ctx, "k8s.io/api", "v0"+strings.TrimPrefix(version, "v1"))
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(dir, "*", "*", "register.go"))
	if err != nil {
		return nil, err
	}
	all := []string{"apiextensions.k8s.io/v1", "apiregistration.k8s.io/v1"} // these have modules of their own
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		version := filepath.Base(filepath.Dir(name))
		if m := groupName.FindSubmatch(data); m != nil && versionName.MatchString(version) {
			all = append(all, strings.TrimPrefix(string(m[1])+"/"+version, "/"))
		}
	}
	if len(all) < 30 {
		return nil, fmt.Errorf("%s defines only %d versions of APIs", dir, len(all))
	}
	slices.Sort(all)
	return all, nil
}

// config is a configuration file of a program: a type in a package of a module.
type config struct{ program, pkg, typ string }

func configs() []config {
	return []config{
		{flags.Kubelet, "k8s.io/kubelet/config/v1beta1", "KubeletConfiguration"},
		{flags.KubeProxy, "k8s.io/kube-proxy/config/v1alpha1", "KubeProxyConfiguration"},
		{flags.Scheduler, "k8s.io/kube-scheduler/config/v1", "KubeSchedulerConfiguration"},
	}
}

// writeConfigs writes the fields of all configuration files.
func writeConfigs(ctx context.Context, b *bytes.Buffer, version string) error {
	s := &sources{ctx: ctx, version: "v0" + strings.TrimPrefix(version, "v1"), packages: map[string]map[string]*source{}}
	for _, c := range configs() {
		fmt.Fprintf(b, "\n[config %s]\n", c.program)
		n := b.Len()
		if err := s.write(b, "", c.pkg, c.typ, 0); err != nil {
			return err
		}
		if b.Len() == n {
			return fmt.Errorf("%s.%s has no fields", c.pkg, c.typ)
		}
	}
	return nil
}

// source is one type declaration with the imports of its file.
type source struct {
	expr    ast.Expr
	imports map[string]string
}

type sources struct {
	ctx      context.Context
	version  string
	packages map[string]map[string]*source
}

// load parses a package and returns its types by name.
func (s *sources) load(pkg string) (map[string]*source, error) {
	if types, ok := s.packages[pkg]; ok {
		return types, nil
	}
	parts := strings.SplitN(pkg, "/", 3)
	dir, err := moduleDir(s.ctx, parts[0]+"/"+parts[1], s.version)
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(dir, parts[2], "*.go"))
	if err != nil {
		return nil, err
	}
	types := map[string]*source{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			return nil, err
		}
		imports := map[string]string{}
		for _, i := range file.Imports {
			at := strings.Trim(i.Path.Value, `"`)
			as := filepath.Base(at)
			if i.Name != nil {
				as = i.Name.Name
			}
			imports[as] = at
		}
		for _, d := range file.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.TYPE {
				for _, spec := range g.Specs {
					if t, ok := spec.(*ast.TypeSpec); ok {
						types[t.Name.Name] = &source{expr: t.Type, imports: imports}
					}
				}
			}
		}
	}
	s.packages[pkg] = types
	return types, nil
}

// write writes the fields of a struct type, including the fields of nested structs.
func (s *sources) write(b *bytes.Buffer, at, pkg, name string, depth int) error {
	types, err := s.load(pkg)
	if err != nil {
		return err
	}
	t, ok := types[name]
	if !ok {
		return fmt.Errorf("%s has no type %s", pkg, name)
	}
	st, ok := t.expr.(*ast.StructType)
	if !ok || depth > 8 {
		return nil
	}
	for _, f := range st.Fields.List {
		key, inline := jsonKey(f)
		if key == "-" {
			continue
		}
		typ, below, in := s.typeOf(pkg, t, f.Type)
		if inline || key == "" {
			if below != "" {
				if err := s.write(b, at, in, below, depth+1); err != nil {
					return err
				}
			}
			continue
		}
		p := strings.TrimPrefix(at+"."+key, ".")
		fmt.Fprintln(b, p, typ)
		if below != "" {
			if err := s.write(b, p, in, below, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

func jsonKey(f *ast.Field) (key string, inline bool) {
	if f.Tag == nil {
		return "-", false
	}
	key, options, _ := strings.Cut(reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json"), ",")
	return key, strings.Contains(options, "inline") || key == "" && len(f.Names) == 0
}

// typeOf returns the table's word for a type, and the struct to descend into with its package.
func (s *sources) typeOf(pkg string, t *source, e ast.Expr) (word, below, in string) {
	switch e := e.(type) {
	case *ast.StarExpr:
		return s.typeOf(pkg, t, e.X)
	case *ast.MapType:
		value, _, _ := s.typeOf(pkg, t, e.Value)
		return "map:" + value, "", ""
	case *ast.ArrayType:
		word, below, in = s.typeOf(pkg, t, e.Elt)
		return "list:" + word, below, in
	case *ast.Ident:
		switch e.Name {
		case "string", "bool":
			return e.Name, "", ""
		case "int", "int32", "int64", "uint", "uint32", "uint64":
			return "int", "", ""
		case "float32", "float64":
			return "number", "", ""
		}
		return s.named(pkg, e.Name)
	case *ast.SelectorExpr:
		x, ok := e.X.(*ast.Ident)
		if !ok {
			return "any", "", ""
		}
		full := t.imports[x.Name] + "." + e.Sel.Name
		switch full {
		case "k8s.io/apimachinery/pkg/apis/meta/v1.Duration":
			return "duration", "", ""
		case "k8s.io/apimachinery/pkg/apis/meta/v1.TypeMeta":
			return "any", "", ""
		}
		if strings.HasPrefix(full, "k8s.io/component-base/") {
			return s.named(t.imports[x.Name], e.Sel.Name)
		}
	}
	return "any", "", ""
}

// named resolves a type by its name in a package.
func (s *sources) named(pkg, name string) (word, below, in string) {
	types, err := s.load(pkg)
	if err != nil || types[name] == nil {
		return "any", "", ""
	}
	t := types[name]
	if name == "TimeOrMetaDuration" { // it unmarshals itself from text
		return "duration", "", ""
	}
	if _, ok := t.expr.(*ast.StructType); ok {
		return "mapping", name, pkg
	}
	return s.typeOf(pkg, t, t.expr)
}
