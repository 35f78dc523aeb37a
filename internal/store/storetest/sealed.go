package storetest

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"filippo.io/age"

	"github.com/naupegos/naupegos/internal/testkit"
)

// sealed is opened by the identity that lies in the store's directory, with age alone, and by nobody else.
func sealed(t *testing.T, at Opener, _ Database) {
	s := at("")
	newCluster(t, s, "demo")
	var file bytes.Buffer
	w := testkit.Value(s.Seal(&file))(t)
	testkit.Value(io.WriteString(w, "everything"))(t)
	testkit.Must(t, w.Close())
	if bytes.Contains(file.Bytes(), []byte("everything")) {
		t.Error("it is not encrypted")
	}
	key := bytes.NewReader(testkit.Value(os.ReadFile(filepath.Join(s.Dir(), "identity.age")))(t))
	text := testkit.Value(io.ReadAll(testkit.Value(age.Decrypt(bytes.NewReader(file.Bytes()), testkit.Value(age.ParseIdentities(key))(t)...))(t)))(t)
	if string(text) != "everything" {
		t.Errorf("the identity opens it as %q", text)
	}
	if _, err := age.Decrypt(bytes.NewReader(file.Bytes()), testkit.Value(age.GenerateX25519Identity())(t)); err == nil {
		t.Error("another identity opens it")
	}
}
