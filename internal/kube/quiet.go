package kube

import (
	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// Quiet keeps client-go from writing the errors that it also returns to standard error. Programs call it once at their start.
func Quiet() { klog.SetLogger(logr.Discard()) }
