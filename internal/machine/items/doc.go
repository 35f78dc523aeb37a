// Package items knows the names of what a document may put on machines: which files, units, kernel settings, modules and packages belong to Naupegos,
// and how systemd names units. The package is pure data: it opens no files and knows nothing of documents.
package items
