// Package turns makes scheduled backups on a cluster's control-plane machines: all of them wake up, one is elected through etcd and makes the set,
// and the others check that it did.
//
// It talks to the machine's own etcd member in plain JSON, so that the agent stays small. It receives the contents of the operator's store sealed
// (Order), and copies them into sets unread. It knows nothing of Kubernetes.
package turns
