package v1alpha1

import (
	"embed"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
)

// sources are the files that declare the document's types: their doc comments are the descriptions of schema and
// reference, so that nothing is written twice and no generated file can be out of date.
//
//go:embed cluster.go addons.go external_dns.go traefik.go sets.go components.go provider.go endpoint.go identity.go nodes.go machine_settings.go outside.go settings.go openstack.go openstack_dns.go backup.go pki.go */types.go
var sources embed.FS

// Comments returns the doc comments of types ("Pool") and fields ("Pool.Name"), each joined into one line.
func Comments() (map[string]string, error) {
	out := map[string]string{}
	entries, err := sources.ReadDir(".")
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "read the document's types")
	}
	for _, e := range entries {
		name := e.Name()
		if e.IsDir() {
			name += "/types.go"
		}
		text, err := sources.ReadFile(name)
		if err != nil {
			return nil, fail.Wrap(fail.Internal, err, "read the document's types")
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments)
		if err != nil {
			return nil, fail.Wrap(fail.Internal, err, "read the document's types")
		}
		for _, d := range file.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.TYPE {
				typeComments(g, out)
			}
		}
	}
	return out, nil
}

// typeComments adds the comments of one type declaration.
func typeComments(g *ast.GenDecl, out map[string]string) {
	for _, s := range g.Specs {
		ts, ok := s.(*ast.TypeSpec)
		if !ok {
			continue
		}
		out[ts.Name.Name] = line(g.Doc)
		st, ok := ts.Type.(*ast.StructType)
		if !ok {
			continue
		}
		for _, f := range st.Fields.List {
			for _, n := range f.Names {
				out[ts.Name.Name+"."+n.Name] = line(f.Doc)
			}
		}
	}
}

func line(c *ast.CommentGroup) string { return strings.Join(strings.Fields(c.Text()), " ") }
