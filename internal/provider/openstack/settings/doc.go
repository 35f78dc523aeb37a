// Package settings reads how a user logs in to a cloud: from clouds.yaml, clouds-public.yaml, secure.yaml and the OS_* variables, by the rules
// of openstacksdk, which the openstack command follows.
//
// It reads files and variables through a Source only, sends nothing, and knows nothing of clusters. Every refusal names the field and the file.
package settings
