package layout

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube/manifest"
)

// When an API server's machine loses power, its connections stay open. Our gateways end them, but a cloud's load balancer does not: clients must
// detect that themselves, by probing a connection that has been silent for a while. With client-go's defaults (30 s, then 15 s for the answer) they
// have no API for 45 s. These values make it 8 s at most.
//
// An idle connection then carries a ping and its answer, some 200 bytes, every 5 s: of a thousand nodes with a handful of connections each a few
// hundred KiB a second and a thousand small frames, shared by all API servers. Gateways, too, remove an API server that can't answer a ping for 3 s;
// a client that was wrong opens a new connection and resumes its watches.
const (
	ReadIdleTimeout = 5 * time.Second
	PingTimeout     = 3 * time.Second
)

// ConnectionEnv is the environment that sets these timeouts in programs that use client-go; there is no other way.
func ConnectionEnv() []EnvVar {
	return []EnvVar{
		{"HTTP2_READ_IDLE_TIMEOUT_SECONDS", strconv.Itoa(int(ReadIdleTimeout.Seconds()))},
		{"HTTP2_PING_TIMEOUT_SECONDS", strconv.Itoa(int(PingTimeout.Seconds()))},
	}
}

// EnvVar is a variable of a program's environment.
type EnvVar struct{ Name, Value string }

// withConnectionEnv adds the environment to the containers of the DaemonSet in kubeadm's output.
func withConnectionEnv(manifests []byte) ([]byte, error) {
	objects, err := manifest.Parse(asYAML(manifests))
	if err != nil {
		return nil, err
	}
	config := ""
	for _, u := range objects {
		if u.GetKind() == "ConfigMap" {
			config, _, _ = unstructured.NestedString(u.Object, "data", "config.conf")
		}
	}
	var docs [][]byte
	for _, u := range objects {
		if u.GetKind() == "DaemonSet" {
			if err := addConnectionEnv(u); err != nil {
				return nil, err
			}
			if err := addConfigDigest(u, config); err != nil {
				return nil, err
			}
		}
		doc, err := yaml.Marshal(u.Object)
		if err != nil {
			return nil, fail.Wrap(fail.Internal, err, "render %s", manifest.Name(u))
		}
		docs = append(docs, doc)
	}
	if !slices.ContainsFunc(objects, func(u *unstructured.Unstructured) bool { return u.GetKind() == "DaemonSet" }) {
		return nil, fail.New(fail.Internal, "there is no DaemonSet among the %d objects that kubeadm has printed", len(objects))
	}
	return bytes.Join(docs, []byte("---\n")), nil
}

// asYAML extracts YAML from kubeadm's output. kubeadm 1.37 prints the patches that it finds among the manifests, and no newline between a separator
// and the DaemonSet.
func asYAML(printed []byte) []byte {
	var kept []byte
	for line := range bytes.Lines(printed) {
		if bytes.HasPrefix(line, []byte("[patches] ")) {
			continue
		}
		if object, ok := bytes.CutPrefix(line, []byte("---apiVersion:")); ok {
			line = append([]byte("---\napiVersion:"), object...)
		}
		kept = append(kept, line...)
	}
	return kept
}

// addConfigDigest makes the DaemonSet replace its pods when their configuration has changed, because they read it only at their start.
func addConfigDigest(u *unstructured.Unstructured, config string) error {
	if config == "" {
		return nil
	}
	sum := sha256.Sum256([]byte(config))
	err := unstructured.SetNestedField(u.Object, "sha256:"+hex.EncodeToString(sum[:]), "spec", "template", "metadata", "annotations", "naupegos.dev/config")
	if err != nil {
		return fail.Wrap(fail.Internal, err, "annotate %s", manifest.Name(u))
	}
	return nil
}

func addConnectionEnv(u *unstructured.Unstructured) error {
	containers, _, err := unstructured.NestedSlice(u.Object, "spec", "template", "spec", "containers")
	if err != nil {
		return fail.Wrap(fail.Internal, err, "read the containers of %s", manifest.Name(u))
	}
	for _, c := range containers {
		container, ok := c.(map[string]any)
		if !ok {
			return fail.New(fail.Internal, "a container of %s is not an object", manifest.Name(u))
		}
		env, _ := container["env"].([]any)
		for _, e := range ConnectionEnv() {
			env = append(env, map[string]any{"name": e.Name, "value": e.Value})
		}
		container["env"] = env
	}
	return unstructured.SetNestedSlice(u.Object, containers, "spec", "template", "spec", "containers")
}
