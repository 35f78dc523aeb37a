// Package items lists names that a document may not use on machines: the files, units, kernel settings, modules and packages of Naupegos; and it
// knows how systemd names units. The package is pure data: it opens no files and knows nothing of documents.
package items
