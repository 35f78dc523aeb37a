package bundle

import "time"

// The phases of an Event.
const (
	PhaseDownload = "download" // Done and Total are bytes (Total 0: unknown), or packages for "debian"
	PhaseCompile  = "compile"  // Done and Total are Go packages
	PhasePackage  = "package"  // Done and Total are images
)

// Event reports how far a build or pull has come.
type Event struct {
	Component string
	Phase     string
	Done      int64
	Total     int64         // 0: unknown
	Elapsed   time.Duration // since the phase began for this component
	Finished  bool          // the last event of this component and phase
	Cached    bool          // nothing had to be done
	Note      string        // something to tell the user; empty for most events
}

// BuildOptions configures Build.
type BuildOptions struct {
	Kubernetes string      // "v1.37.2": one of release.Versions
	Addons     []string    // sets of addons whose images the bundle includes, of AddonSets
	Progress   func(Event) // may be nil; called from several goroutines, one at a time
	Parallel   int         // components compiled at the same time; 0 means 2
	Go         string      // the go command; empty: found in PATH or /usr/local/go
}

// PullOptions configures Pull.
type PullOptions struct {
	Kubernetes string
	BaseURLs   BaseURLs // empty fields: the official places
	Unpinned   bool     // for files without a pinned digest, trust the checksum published beside them
	Progress   func(Event)
	Go         string // as in BuildOptions: our own few small programs are compiled
}

// EnsureOptions configures how Ensure gets a bundle that the library lacks.
type EnsureOptions struct {
	Addons   []string // sets of addons whose images the bundle includes, of AddonSets
	BaseURLs BaseURLs
	Progress func(Event)
	Parallel int
	Go       string
	Probe    time.Duration // time limit for the check that the official downloads are reachable; 0 means 4 s
}

// BaseURLs are the roots of download trees in the layout of the official ones.
type BaseURLs struct {
	Kubernetes string // <base>/v1.37.2/bin/linux/amd64/kubelet and kubelet.sha256
	Etcd       string // <base>/v3.6.8/etcd-v3.6.8-linux-amd64.tar.gz and SHA256SUMS
	CNI        string // <base>/v1.9.1/cni-plugins-linux-amd64-v1.9.1.tgz and ….sha256
	Containerd string // <base>/v2.2.9/containerd-static-2.2.9-linux-amd64.tar.gz and ….sha256sum
	CoreDNS    string // <base>/v1.14.2/coredns_1.14.2_linux_amd64.tgz and ….sha256
	Flannel    string // <base>/v0.28.4/flanneld-amd64
	// FlannelAPI answers <base>/tags/v0.28.4 with the release as JSON, whose assets carry digests: flannel publishes no checksum files.
	FlannelAPI string
}
