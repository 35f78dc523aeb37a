// Package access asks the Kubernetes API who may use it: which issuers of tokens its servers have loaded, and which roles people have.
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

// The metrics by which an API server says which AuthenticationConfiguration it goes by, and how often it could not load one.
const (
	loadedMetric = "apiserver_authentication_config_controller_last_config_info{"
	failedMetric = `apiserver_authentication_config_controller_automatic_reloads_total{`
)

// Loaded returns fail.NotReady until an API server goes by this AuthenticationConfiguration. The client must reach that one server.
func Loaded(ctx context.Context, c *kube.Client, config []byte) error {
	body, err := kube.Set(c).Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return kube.APIError(ctx, err, "ask the API server which issuers it accepts").At(c.Server())
	}
	return loaded(body, config, c.Server())
}

func loaded(metrics, config []byte, server string) error {
	want := fmt.Sprintf(`hash="sha256:%x"`, sha256.Sum256(config))
	failures := "0"
	for lines := bufio.NewScanner(bytes.NewReader(metrics)); lines.Scan(); {
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, loadedMetric) && strings.Contains(line, want):
			return nil
		case strings.HasPrefix(line, failedMetric) && strings.Contains(line, `status="failure"`):
			failures = line[strings.LastIndexByte(line, ' ')+1:]
		}
	}
	return fail.New(fail.NotReady, "the API server has not loaded its list of issuers yet (%s failed attempts)", failures).At(server)
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
