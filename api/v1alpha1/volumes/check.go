package volumes

import (
	"path"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/api/strict"
)

// systemDirectories must not contain volumes: pods would write into the machine's own files.
var systemDirectories = []string{"/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/root", "/run", "/sbin", "/sys", "/tmp", "/usr",
	"/var/lib/kubelet", "/var/lib/containerd", "/var/lib/etcd", "/var/lib/naupegos", "/var/lib/dpkg", "/var/lib/apt", "/var/lib/systemd", "/var/log", "/var/run"}

// Check reports invalid settings. onCloud is true if a cloud provides the cluster's volumes.
func (l *LocalPath) Check(r *strict.Findings, field string, onCloud bool) {
	switch p := l.Path; {
	case !path.IsAbs(p) || path.Clean(p) != p || strings.ContainsAny(p, "\"\\\n\r\x00$"):
		r.Add(field+".path", strict.Quote(p)+" is not an absolute path without . and ..", "write it like /var/lib/local-path")
	case slices.Contains([]string{"/", "/var", "/var/lib", "/home", "/opt", "/srv", "/mnt", "/media"}, p):
		r.Add(field+".path", strict.Quote(p)+" holds other directories of the machine", "take one below it: "+path.Join(p, "local-path"))
	case slices.ContainsFunc(systemDirectories, func(d string) bool { return p == d || strings.HasPrefix(p, d+"/") }):
		r.Add(field+".path", strict.Quote(p)+" is a directory of the machine's own", "take another, such as /var/lib/local-path")
	}
	if !onCloud {
		return
	}
	if l.StorageClass == classCinder {
		r.Add(field+".storageClass", strict.Quote(classCinder)+" is the class of the cloud's volumes", "take another name")
	}
	if l.Default != nil && *l.Default {
		r.Add(field+".default", "the cloud's volumes ("+classCinder+") are the default", "set it to false, or leave it out")
	}
}

// classCinder is the StorageClass of clusters on OpenStack.
const classCinder = "cinder"
