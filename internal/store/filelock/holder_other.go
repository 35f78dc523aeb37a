//go:build !linux

package filelock

import "os"

func holder(*os.File) string { return "another process" }
