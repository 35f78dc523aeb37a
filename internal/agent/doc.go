// Package agent makes the host it runs on match a machine.Config: files, binaries, kernel settings, units, images.
//
// It looks first, then changes only what differs, and leaves a record of what it manages, so that being killed anywhere
// is mended by running again. It knows nothing of clusters, and reaches no network other than what it is told to check.
package agent
