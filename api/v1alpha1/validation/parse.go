// Package validation reads Cluster documents and ServerPolicies: strict parsing, defaults and validation.
//
// It is pure, as the types of api/v1alpha1 are. One file holds the checks of one part of the document.
package validation

import (
	"time"

	"github.com/naupegos/naupegos/api/foreign"
	"github.com/naupegos/naupegos/api/strict"
	"github.com/naupegos/naupegos/api/v1alpha1"
)

// Parse parses one document strictly, fills in defaults and validates it. The name is the file's, for messages. The error is an Errors with all
// problems.
func Parse(name string, data []byte) (*v1alpha1.Cluster, error) {
	return parse(name, data, check)
}

// ParseFilledIn is Parse for a document that is about to be used: it also refuses placeholder values of New that the user did not replace.
func ParseFilledIn(name string, data []byte) (*v1alpha1.Cluster, error) {
	return parse(name, data, func(c *v1alpha1.Cluster, r *findings) {
		check(c, r)
		checkMadeUp(c, r)
		checkAuthoritiesLast(c, r, time.Now())
		checkRegistriesExpiry(c, r, time.Now())
		checkIdentityExpiry(c.Spec.Identity, r, time.Now())
	})
}

func parse(name string, data []byte, check func(*v1alpha1.Cluster, *findings)) (*v1alpha1.Cluster, error) {
	r := strict.New(name)
	c := &v1alpha1.Cluster{}
	if root := foreign.Document(r, data, v1alpha1.APIVersion, v1alpha1.Kind); root != nil {
		r.Decode(root, c)
		c.Default()
		check(c, r)
	}
	if errs := r.Sorted(); len(errs) > 0 {
		return nil, errs
	}
	return c, nil
}

// findings collects the problems in a document.
type findings = strict.Findings
