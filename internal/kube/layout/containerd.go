package layout

import (
	"fmt"

	"github.com/naupegos/naupegos/internal/machine"
)

// containerdConfig renders containerd 2's config.toml. Settings that it leaves out have containerd's defaults.
func (p Params) containerdConfig(n Node) (string, error) {
	pause, err := p.of(n).image("pause")
	if err != nil {
		return "", err
	}
	return fmt.Sprintf(`version = 3
root = %q
state = "/run/containerd"

[plugins."io.containerd.cri.v1.images"]
  snapshotter = "overlayfs"

  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = %q

  [plugins."io.containerd.cri.v1.images".registry]
    config_path = %q

[plugins."io.containerd.cri.v1.runtime"]
  # A negative oom_score_adj needs CAP_SYS_RESOURCE.
  restrict_oom_score_adj = %t
  disable_apparmor = %t

  [plugins."io.containerd.cri.v1.runtime".containerd]
    default_runtime_name = "runc"

    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"

      [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
        SystemdCgroup = %t

  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = [%q]
    conf_dir = %q
`, machine.ContainerdRoot, pause.Ref, certsD, !n.Facts.SysResource, !n.Facts.AppArmor, n.Facts.CgroupVersion == 2, cniBinDir, cniConfDir), nil
}

// authoritiesDir holds the CA certificates that are trusted in addition to the system's own; containerd reads them when it starts.
const authoritiesDir = "/usr/local/share/ca-certificates"
