// Package turns makes the backups that a cluster's document wants on a schedule, on its control-plane machines: all of them wake up, one is
// elected by etcd and makes the set, the others see to it that there is one.
//
// It talks to the machine's own etcd member in plain JSON, so that the agent stays small. What only the operator's store knows comes to it
// sealed (Order), and goes into sets unread. It knows nothing of Kubernetes.
package turns
