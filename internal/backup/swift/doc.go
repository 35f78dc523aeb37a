// Package swift keeps backups in a container of an object store that speaks OpenStack's API: Swift, or Ceph's gateway.
//
// It knows files and nothing of what is in them. It signs in by an application credential and makes the few calls that it needs as plain JSON over
// HTTPS: the agent has it, too, and a client of all of OpenStack would be most of it.
package swift
