package storetest

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"filippo.io/age"

	"github.com/naupegos/naupegos/internal/testkit"
)

// identity is the one that lies in the store's directory, and what is encrypted to the recipient it opens.
func identity(t *testing.T, at Opener, _ Database) {
	s := at("")
	newCluster(t, s, "demo")
	file := testkit.Value(os.ReadFile(filepath.Join(s.Dir(), "identity.age")))(t)
	if !bytes.Equal(file, s.Identity()) {
		t.Error("it is not the one in its file")
	}
	ids := testkit.Value(age.ParseIdentities(bytes.NewReader(s.Identity())))(t)
	if got := ids[0].(*age.X25519Identity).Recipient().String(); len(ids) != 1 || got != s.Recipient() {
		t.Errorf("%d identities, of %s; the recipient is %s", len(ids), got, s.Recipient())
	}
}
