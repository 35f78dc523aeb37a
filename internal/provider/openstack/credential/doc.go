// Package credential makes, tries and deletes the application credentials of one cluster: those of its components, which admit only the calls
// that package access lists if the cloud can bound them, and those of people who take the cluster over. It must not know about machines.
package credential
