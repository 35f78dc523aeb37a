// Package swift keeps backups in a container of an object store with OpenStack's API: Swift, or Ceph's gateway.
//
// It handles files and ignores their content. It signs in with an application credential and makes its few calls as plain JSON over HTTPS: the
// agent includes this package, and a full OpenStack client would dominate its size.
package swift
