package swift

import (
	"context"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestNamed: a named credential replaces files and variables, which a closed host never uses.
func TestNamed(t *testing.T) {
	t.Setenv(idName, "of-the-environment")
	t.Setenv(secretName, "word")
	value, gone := "export "+idName+"=id\nexport "+secretName+"='word'\n", error(nil)
	from := Source{Credential: func(context.Context) ([]byte, error) { return []byte(value), gone }, Closed: true}
	spec := Spec{AuthURL: "https://cloud.example.org", Container: "c", Credential: "swift"}
	if got := parse(string(testkit.Value(Credentials(t.Context(), spec, from))(t))); got != (credential{"id", "word"}) {
		t.Errorf("the credential is %v", got)
	}
	gone = fail.New(fail.Unauthorized, "cluster demo has no credential swift")
	_, err := NewFrom(spec, from).List(t.Context(), "demo")
	testkit.Fails(t, err, fail.Unauthorized, "cluster demo has no credential swift")
	gone, value = nil, "secret words"
	_, err = Credentials(t.Context(), spec, from)
	testkit.Fails(t, err, fail.Unauthorized, "credential swift holds no application credential")
	for _, spec := range []Spec{{Container: "c"}, {Container: "c", CredentialsFile: "/etc/passwd"}, {Container: "c", Credential: "swift"}} {
		_, err := Credentials(t.Context(), spec, Source{Closed: true})
		testkit.Fails(t, err, fail.Refused, "no credential admits to the container c")
	}
}
