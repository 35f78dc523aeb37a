// Package approver approves kubelets' requests for serving certificates, after checking that each request names only the machine that sent it.
//
// It talks to the API server in plain JSON, so that the agent stays small, and knows only the few fields that decisions depend on. Several approvers
// can run in one cluster: they all decide alike.
package approver
