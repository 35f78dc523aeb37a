package v1alpha1

// MadeUpHostKey has the form of a host key but belongs to no machine, so that nothing connects by mistake while it is in place.
const MadeUpHostKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

// MadeUpVIP is the virtual address of sample documents.
const MadeUpVIP = "192.0.2.10"
