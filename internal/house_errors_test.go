package internal

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/testkit"
)

// TestCausesAreKept: code that returns a new error because of another one wraps it, logs it, or chose the new text by its kind.
func TestCausesAreKept(t *testing.T) {
	files := token.NewFileSet()
	testkit.Must(t, filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && (d.Name() == "testdata" || d.Name() == "recipes" || strings.HasPrefix(d.Name(), ".") && d.Name() != "..") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			return err
		}
		withheld := map[int]bool{} // by line
		for _, c := range f.Comments {
			if strings.HasPrefix(c.Text(), "cause withheld: ") {
				withheld[files.Position(c.Pos()).Line] = true
			}
		}
		for _, at := range droppedCauses(f) {
			if withheld[files.Position(at).Line] {
				continue
			}
			t.Errorf("%s: a new error takes the place of its cause: wrap the cause with fail.Wrap or %%w, or say in a comment why not (// cause withheld: …)", files.Position(at))
		}
		return nil
	}))
}

// droppedCauses returns the places of returned errors that are made in a block which runs because an error occurred, and which does not use that error.
func droppedCauses(f *ast.File) (out []token.Pos) {
	ast.Inspect(f, func(n ast.Node) bool {
		branch, ok := n.(*ast.IfStmt)
		if !ok {
			return true
		}
		cause := causeOf(branch.Cond)
		if cause == "" || uses(branch.Body, cause) {
			return true
		}
		for _, s := range branch.Body.List {
			if ret, ok := s.(*ast.ReturnStmt); ok {
				for _, r := range ret.Results {
					if makesError(r) {
						out = append(out, r.Pos())
					}
				}
			}
		}
		return true
	})
	return out
}

// causeOf returns the name of the error that a condition compares with nil and does not examine further; empty if there is none.
func causeOf(cond ast.Expr) string {
	b, ok := cond.(*ast.BinaryExpr)
	if !ok {
		return ""
	}
	x, isName := b.X.(*ast.Ident)
	if y, isNil := b.Y.(*ast.Ident); b.Op == token.NEQ && isName && isNil && y.Name == "nil" && strings.HasSuffix(strings.ToLower(x.Name), "err") {
		return x.Name
	}
	return ""
}

func uses(n ast.Node, name string) (found bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		found = found || ok && id.Name == name
		return !found
	})
	return found
}

// makesError reports whether an expression is or contains a call that makes an error without a cause.
func makesError(e ast.Expr) (found bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if sel, _ := call.Fun.(*ast.SelectorExpr); sel != nil {
				name := fmt.Sprint(sel.X) + "." + sel.Sel.Name
				found = found || name == "fail.New" || name == "errors.New" || name == "fmt.Errorf"
			}
		}
		return !found
	})
	return found
}

// TestDroppedCauses shows which code TestCausesAreKept rejects.
func TestDroppedCauses(t *testing.T) {
	for body, want := range map[string]int{
		`if err != nil { return errors.New("no") }`:                                    1,
		`if err := g(); err != nil { return fail.New(fail.Refused, "no").At("x") }`:    1,
		`if readErr != nil { return fmt.Errorf("no") }`:                                1,
		`if err != nil { return fail.Wrap(fail.Refused, err, "no") }`:                  0,
		`if err != nil { log(err); return errors.New("no") }`:                          0,
		`if errors.Is(err, fs.ErrNotExist) { return errors.New("it does not exist") }`: 0,
		`if err != nil { for { return errors.New("of something else") } }`:             0,
		`if err == nil { return errors.New("it should fail") }`:                        0,
		`if err != nil || x { return errors.New("two reasons") }`:                      0,
		`if err != nil { return fail.New(fail.Invalid, "%v", err) }`:                   0,
	} {
		f := testkit.Value(parser.ParseFile(token.NewFileSet(), "x.go", "package x\nfunc f() error { "+body+"\nreturn nil }", 0))(t)
		if got := droppedCauses(f); len(got) != want {
			t.Errorf("%s: %d findings, want %d", body, len(got), want)
		}
	}
}
