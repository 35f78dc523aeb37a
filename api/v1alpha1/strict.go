package v1alpha1

import "github.com/naupegos/naupegos/api/strict"

// FieldError is one problem in a document.
type FieldError = strict.FieldError

// Errors lists all problems in a document, in the document's order.
type Errors = strict.Errors

// Duration is a length of time that documents write as "90s", "5m" or "1h30m". Zero means "not given".
type Duration = strict.Duration
