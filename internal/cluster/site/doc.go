// Package site renders what a document adds to machines for its site: settings of the machines, the HTTP proxy and registries.
//
// It knows the document and machine configurations, and nothing of running clusters; credentials come from the caller.
package site
