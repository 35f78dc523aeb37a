package cloud

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCACert(t *testing.T) {
	dir := t.TempDir()
	ca, clouds := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "clouds.yaml")
	for file, text := range map[string]string{ca: "PEM", clouds: "clouds: {naupegos: {cacert: " + ca + "}, other: {}}"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("OS_CLIENT_CONFIG_FILE", clouds)
	t.Setenv("OS_CACERT", "")
	if got, err := CACert("naupegos"); got != "PEM" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := CACert("other"); got != "" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "secure.yaml"), []byte("clouds: {other: {cacert: "+ca+"}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := CACert("other"); got != "PEM" || err != nil {
		t.Errorf("secure.yaml: %q, %v", got, err)
	}
	t.Setenv("OS_CACERT", clouds) // login prefers it, too
	if got, err := CACert("other"); !strings.HasPrefix(got, "clouds:") || err != nil {
		t.Errorf("OS_CACERT: %q, %v", got, err)
	}
}
