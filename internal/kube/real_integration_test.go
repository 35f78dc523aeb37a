//go:build integration

package kube

import "testing"

// RealAPI starts a real API server and returns a client of it, for tests of packages that use this one.
func RealAPI(t *testing.T) *Client {
	t.Helper()
	return startAPI(t).client()
}
