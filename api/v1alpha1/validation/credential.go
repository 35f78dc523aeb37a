package validation

import (
	"strings"

	"github.com/naupegos/naupegos/api/strict"
	"github.com/naupegos/naupegos/api/v1alpha1"
)

// checkCredential checks the name of a credential, and that no file is named in addition.
func checkCredential(r *findings, at, field, file, name string) {
	switch {
	case name == "":
	case !v1alpha1.IsCredentialName(name):
		r.Add(at+".credential", strict.Quote(name)+" is not the name of a credential", "up to 63 lower-case letters, digits, dots and dashes; naupegos server credential list shows them")
	case file != "":
		r.Add(at+".credential", "names a credential, and "+field+" a file", "keep one of them", at+"."+strings.TrimPrefix(field, "."))
	}
}
