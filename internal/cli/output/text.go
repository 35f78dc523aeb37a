package output

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/tool"
)

// WriteText prints an error for people. Each of several errors, such as the mistakes in a document, begins with the name of the program.
func WriteText(w io.Writer, err error) {
	for _, text := range each(err) {
		fmt.Fprintf(w, "naupegos: %s\n", tool.Printable(text)) // a part may come from a machine
	}
}

// each returns the texts of the errors that err consists of.
func each(err error) (texts []string) {
	var problems v1alpha1.Errors
	var refused v1alpha1.Refusal
	if errors.As(err, &refused) {
		problems = v1alpha1.Errors(refused)
	}
	var several interface{ Unwrap() []error }
	if (problems != nil || errors.As(err, &problems)) && problems.Error() == err.Error() {
		for _, p := range problems {
			texts = append(texts, p.Error())
		}
		return texts
	}
	if errors.As(err, &several) {
		for _, e := range several.Unwrap() {
			texts = append(texts, each(e)...)
		}
		if strings.Join(texts, "\n") == err.Error() {
			return texts
		}
	}
	return []string{err.Error()}
}
