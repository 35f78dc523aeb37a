package sample

import (
	"bytes"
	"embed"
	"slices"
	"strings"
	"text/template"

	"github.com/naupegos/naupegos/internal/fail"
)

//go:embed sections
var sections embed.FS

// Sections lists the examples that New can add, in the order in which it writes them. The first belongs below spec.kubernetes, the others below spec.
func Sections() []string {
	return []string{"kubernetes", "machines", "proxy", "registries", "identity", "addons", "manifests", "charts", "backup", "updates"}
}

// checkSections refuses names that Sections does not have.
func (o Options) checkSections() error {
	known := Sections()
	for _, name := range o.With {
		if slices.Contains(known, name) {
			continue
		}
		err := fail.New(fail.Invalid, "there is no example of a section %q", name)
		if near := fail.Nearest(name, known); near != "" {
			return err.Do("did you mean %q? Known: %s", near, strings.Join(known, ", "))
		}
		return err.Do("known: %s", strings.Join(known, ", "))
	}
	return nil
}

// Offered returns the names of the examples to write below spec, in order. The template calls it.
func (o Options) Offered() []string {
	return slices.DeleteFunc(Sections()[1:], func(name string) bool { return !slices.Contains(o.With, name) })
}

// Offers reports whether the document gets an example. The template calls it.
func (o Options) Offers(name string) bool { return slices.Contains(o.With, name) }

// Example returns an example as comments, indented by blanks; without its marks ("# ") it is valid. The template calls it.
func (o Options) Example(name string, blanks int) (string, error) {
	text, err := sections.ReadFile("sections/" + name + ".yaml")
	if err != nil {
		return "", err
	}
	t, err := template.New(name).Funcs(template.FuncMap{"yaml": scalar}).Parse(string(text))
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	if err := t.Execute(&b, o); err != nil {
		return "", err
	}
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	for i, line := range lines {
		lines[i] = strings.Repeat(" ", blanks) + "# " + line
	}
	return strings.Join(lines, "\n"), nil
}
