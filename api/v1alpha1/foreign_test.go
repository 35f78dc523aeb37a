package v1alpha1

import (
	"strings"
	"testing"
)

// TestForeign reports placeholders and other tools' keys as such.
func TestForeign(t *testing.T) {
	for _, name := range []string{"${CLUSTER}", "$CLUSTER", "{{ name }}", "<name>", "a-${X}"} {
		_, err := Parse("c.yaml", []byte("apiVersion: "+APIVersion+"\nkind: "+Kind+"\nmetadata:\n  name: \""+name+"\"\nspec: {}\n"))
		if err == nil || !strings.Contains(err.Error(), "is a placeholder") || strings.Contains(err.Error(), "capital") {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := Parse("c.yaml", []byte("kube_version: v1.30\n"))
	if err == nil || strings.Contains(err.Error(), "did you mean") || !strings.Contains(err.Error(), "apiVersion: is required") {
		t.Errorf("%v", err)
	}
	_, err = Parse("c.yaml", []byte("apiversion: x\n"))
	if err == nil || !strings.Contains(err.Error(), `did you mean "apiVersion"`) {
		t.Errorf("%v", err)
	}
}
