package layout

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// managersPath records the kubelet's CPU and memory manager settings of its last start.
const managersPath = kubeletDir + "/naupegos-managers"

// forgetManagers returns the line of the kubelet's drop-in that removes the state files of the CPU and memory managers once the policies, or the
// reservations that they use, have changed: kubelet refuses to start with files of other settings. Every drop-in has the line, because a kubelet
// whose settings were removed must also forget them.
func forgetManagers(s Program) string {
	const files = kubeletDir + "/cpu_manager_state " + kubeletDir + "/memory_manager_state"
	if s.Config["cpuManagerPolicy"] != "static" && s.Config["memoryManagerPolicy"] != "Static" {
		return fmt.Sprintf("ExecStartPre=-/bin/sh -c '[ ! -e %[1]s ] || rm -f %[2]s %[1]s'\n", managersPath, files)
	}
	counted := map[string]any{}
	for _, key := range []string{"cpuManagerPolicy", "cpuManagerPolicyOptions", "memoryManagerPolicy", "topologyManagerPolicy", "reservedSystemCPUs",
		"reservedMemory", "systemReserved", "kubeReserved", "evictionHard"} {
		counted[key] = s.Config[key]
	}
	data, err := json.Marshal(counted)
	if err != nil {
		data = fmt.Append(nil, counted) // decoded YAML can always be encoded as JSON
	}
	sum := sha256.Sum256(data)
	return fmt.Sprintf("ExecStartPre=-/bin/sh -c 'grep -qsx %[1]s %[2]s || { rm -f %[3]s; echo %[1]s > %[2]s; }'\n", hex.EncodeToString(sum[:8]), managersPath, files)
}
