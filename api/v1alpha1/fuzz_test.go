package v1alpha1_test

import (
	"errors"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/api/v1alpha1/validation"
)

// FuzzParse: any input is either refused with findings, or accepted as a consistent document.
func FuzzParse(f *testing.F) {
	for _, path := range goodFiles(f) {
		f.Add(read(f, path))
	}
	for _, path := range files(f, "testdata/bad/*.txtar") {
		for _, file := range txtar.Parse(read(f, path)).Files {
			f.Add(file.Data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := validation.Parse("f", data)
		if err == nil {
			checkAccepted(t, c)
			return
		}
		var errs v1alpha1.Errors
		if !errors.As(err, &errs) || len(errs) == 0 || c != nil {
			t.Fatalf("refused without findings: %v", err)
		}
		for _, e := range errs {
			if e.Problem == "" || e.Line < 0 || e.Error() == "" {
				t.Errorf("empty finding %#v", e)
			}
		}
	})
}
