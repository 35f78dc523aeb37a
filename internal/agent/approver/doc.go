// Package approver approves kubelets' requests for serving certificates, after checking that a request names the very machine
// it comes from.
//
// It talks to the API server in plain JSON, so that the agent stays small, and knows only the few fields it decides by.
// Several approvers on one cluster do no harm: their answers are the same.
package approver
