// Package settings reads a user's login to a cloud from clouds.yaml, clouds-public.yaml, secure.yaml and the OS_* variables, by openstacksdk's rules.
//
// It reads files and variables only through a Source, opens no connections, and knows nothing of clusters. Every error names the field and the file.
package settings
