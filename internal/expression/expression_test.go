package expression

import (
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/testkit"
)

// TestHolds evaluates typical conditions on a Deployment.
func TestHolds(t *testing.T) {
	object := map[string]any{
		"metadata": map[string]any{"name": "shop", "labels": map[string]any{"tier": "web"}},
		"spec":     map[string]any{"replicas": int64(3)},
		"status":   map[string]any{"readyReplicas": int64(2), "conditions": []any{map[string]any{"type": "Available", "status": "True"}}},
	}
	for text, want := range map[string]string{
		"object.status.readyReplicas == object.spec.replicas":                             "false",
		"object.status.readyReplicas >= 2":                                                "true",
		"object.status.readyReplicas > 1.5":                                               "true",
		"object.status.conditions.exists(c, c.type == 'Available' && c.status == 'True')": "true",
		"object.metadata.name != 'shop' || has(object.status.readyReplicas)":              "true",
		"object.?status.?unavailable.orValue(0) == 0":                                     "true",
		"object.metadata.labels.all(k, v, k == 'tier' && v.lowerAscii() == 'web')":        "true",
		"sets.contains(['web', 'db'], [object.metadata.labels.tier])":                     "true",
		"object.status.missing == 1":                                                      "no such key: missing",
		"object.metadata.name":                                                            "neither true nor false",
	} {
		c := testkit.Value(Compile(text))(t)
		holds, err := c.Holds(t.Context(), object)
		switch {
		case err != nil && !strings.Contains(err.Error(), want), err == nil && want != map[bool]string{true: "true", false: "false"}[holds]:
			t.Errorf("%s: %v, %v, want %s", text, holds, err, want)
		}
	}
}

// TestCompileRefused: what can never be told is refused beforehand.
func TestCompileRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                "Syntax error",
		"object.x ==":     "Syntax error",
		"pod.status":      "undeclared reference to 'pod'",
		"'ready'":         "is of type string",
		"size(object.x)":  "is of type int",
		"nothing(object)": "undeclared reference to 'nothing'",
	} {
		if _, err := Compile(text); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v, want %q in one line", text, err, want)
		}
	}
}

// TestCostIsBounded: an expression that would run for ever ends with an error.
func TestCostIsBounded(t *testing.T) {
	many := make([]any, 2000)
	c := testkit.Value(Compile("object.l.all(a, object.l.all(b, object.l.all(c, a == b || b == c || a != c)))"))(t)
	if _, err := c.Holds(t.Context(), map[string]any{"l": many}); err == nil || !strings.Contains(err.Error(), "cost") {
		t.Errorf("%v", err)
	}
}
