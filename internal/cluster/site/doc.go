// Package site renders a document's site-specific additions to machines: machine settings, the HTTP proxy and registries.
//
// It knows the document and machine configurations, but no running cluster. Credentials come from the caller.
package site
