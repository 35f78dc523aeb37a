// Package access asks the Kubernetes API about access: which configurations its servers have loaded, and which roles people have.
package access

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
)

// Reloaded is a configuration file that API servers reload by themselves.
type Reloaded string

// The files, as API servers call them in their metrics and logs.
const (
	Authentication Reloaded = "authentication"
	Authorization  Reloaded = "authorization"
)

// Loaded returns fail.NotReady until an API server has loaded this content of a file. The client must reach that one server.
func Loaded(ctx context.Context, c *kube.Client, file Reloaded, config []byte) error {
	body, err := kube.Set(c).Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return kube.APIError(ctx, err, "ask the API server for its %s configuration", string(file)).At(c.Server())
	}
	return loaded(body, file, config, c.Server())
}

func loaded(metrics []byte, file Reloaded, config []byte, server string) error {
	prefix := "apiserver_" + string(file) + "_config_controller_"
	want := fmt.Sprintf(`hash="sha256:%x"`, sha256.Sum256(config))
	failures := "0"
	for lines := bufio.NewScanner(bytes.NewReader(metrics)); lines.Scan(); {
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, prefix+"last_config_info{") && strings.Contains(line, want):
			return nil
		case strings.HasPrefix(line, prefix+"automatic_reloads_total{") && strings.Contains(line, `status="failure"`):
			failures = line[strings.LastIndexByte(line, ' ')+1:]
		}
	}
	return fail.New(fail.NotReady, "the API server has not loaded its %s configuration yet (%s failed attempts)", string(file), failures).At(server)
}

// MissingNamespaces returns the given namespaces that do not exist.
func MissingNamespaces(ctx context.Context, c *kube.Client, names []string) ([]string, error) {
	var missing []string
	for _, name := range names {
		_, err := kube.Set(c).CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			missing = append(missing, name)
		case err != nil:
			return nil, kube.APIError(ctx, err, "get namespace %s", name).At(c.Server())
		}
	}
	return missing, nil
}
