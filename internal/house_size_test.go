package internal_test

import (
	"bufio"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/testkit"
)

// The limits of production code that people write.
const (
	maxMethods       = 60   // of a type
	maxPackageLines  = 5000 // of a package
	maxFunctionLines = 80   // of a function
)

// exceptions lists what exceeds the limits, by how much. Entries may shrink and vanish, and never grow: -update rewrites the file that way alone.
const exceptions = "testdata/sizes.txt"

// TestSizes compares the sizes of packages, types and functions with their limits, or with what the file of exceptions allows.
func TestSizes(t *testing.T) {
	now := sizes(t)
	allowed := map[string]int{}
	file := testkit.Value(os.Open(exceptions))(t)
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var what string
		var n int
		if _, err := fmt.Sscan(lines.Text(), &n, &what); err != nil {
			t.Fatalf("%s: %q: %v", exceptions, lines.Text(), err)
		}
		allowed[what] = n
	}
	for _, what := range slices.Sorted(maps.Keys(now)) {
		if n := now[what]; n > allowed[what] {
			t.Errorf("%s: %d; the limit is %d (%d methods of a type, %d lines of a package, %d of a function): ask which two things it is",
				what, n, max(allowed[what], limitOf(what)), maxMethods, maxPackageLines, maxFunctionLines)
		}
	}
	smaller := map[string]int{}
	for what, n := range allowed {
		if now[what] > 0 {
			smaller[what] = min(n, now[what])
		}
	}
	if !maps.Equal(smaller, allowed) {
		if !testkit.Updating() {
			t.Errorf("some exceptions of %s have shrunk: run this test with -update", exceptions)
			return
		}
		var text strings.Builder
		for _, what := range slices.Sorted(maps.Keys(smaller)) {
			fmt.Fprintf(&text, "%d %s\n", smaller[what], what)
		}
		testkit.Must(t, os.WriteFile(exceptions, []byte(text.String()), 0o644))
	}
}

func limitOf(what string) int {
	switch {
	case strings.HasPrefix(what, "type:"):
		return maxMethods
	case strings.HasPrefix(what, "package:"):
		return maxPackageLines
	default:
		return maxFunctionLines
	}
}

// sizes returns what exceeds its limit, and how large it is.
func sizes(t *testing.T) map[string]int {
	t.Helper()
	all := map[string]int{}
	files := token.NewFileSet()
	checked := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != ".." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "recipes"):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(files, path, nil, parser.ParseComments)
		if err != nil || ast.IsGenerated(file) {
			return err
		}
		checked++
		dir := filepath.ToSlash(filepath.Dir(strings.TrimPrefix(path, "../")))
		all["package:"+dir] += files.File(file.Pos()).LineCount()
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			name := f.Name.Name
			if f.Recv != nil {
				of := receiver(f.Recv.List[0].Type)
				all["type:"+dir+"."+of]++
				name = of + "." + name
			}
			what := "func:" + dir + "." + name
			all[what] = max(all[what], files.Position(f.End()).Line-files.Position(f.Pos()).Line+1)
		}
		return nil
	})
	testkit.Must(t, err)
	if checked < 500 {
		t.Fatalf("only %d files were found: this test looks in the wrong place", checked)
	}
	maps.DeleteFunc(all, func(what string, n int) bool { return n <= limitOf(what) })
	return all
}

// receiver returns the name of a method's type.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return "?"
}
