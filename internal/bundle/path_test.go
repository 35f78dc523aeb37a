package bundle

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestBlobsStayInTheLibrary: a path in place of a digest opens no file of this host.
func TestBlobsStayInTheLibrary(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "identity.age")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, digest := range []string{"sha256:../../../../../../../../../.." + secret, "../../../../../../../../../.." + secret, secret, "sha256:" + secret, "", "sha256:", "sha256:.", "sha256:.."} {
		blobs := t.TempDir()
		if got := (&Bundle{blobs: blobs}).Path(digest); got != blobs && !strings.HasPrefix(got, blobs+"/") {
			t.Errorf("%q leads to %s", digest, got)
		}
	}
}
