// Package identity renders and validates the API servers' settings of identity: the issuers whose tokens they accept, their authorization webhooks, and the
// Pod Security levels. It knows nothing of documents and machines.
package identity

import (
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/apis/apiserver"
	v1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	"k8s.io/apiserver/pkg/apis/apiserver/validation"
	"k8s.io/apiserver/pkg/authentication/cel"
	"sigs.k8s.io/yaml"

	"github.com/naupegos/naupegos/internal/fail"
)

// Rules refuse tokens that would name a part of Kubernetes itself: system:masters, for one, bypasses all authorization.
func Rules() []v1.UserValidationRule {
	return []v1.UserValidationRule{
		{Expression: `!user.username.startsWith("system:")`, Message: "names that start with system: belong to Kubernetes"},
		{Expression: `!has(user.groups) || user.groups.all(g, !g.startsWith("system:"))`, Message: "groups that start with system: belong to Kubernetes"},
	}
}

// Render returns the field jwt of an AuthenticationConfiguration as YAML, to append to a text that has the other fields. It is empty without authenticators.
func Render(jwt []v1.JWTAuthenticator) ([]byte, error) {
	if len(jwt) == 0 {
		return nil, nil
	}
	out, err := yaml.Marshal(map[string]any{"jwt": jwt})
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "render the issuers of tokens")
	}
	return out, nil
}

// Problem says what API servers refuse.
type Problem struct {
	Field string // "jwt[0].issuer.url"
	Text  string
	Hint  string // what to do; may be empty
}

// Check returns the problems that API servers find in authenticators, by their own validation. reserved lists the cluster's own issuers.
func Check(jwt []v1.JWTAuthenticator, reserved ...string) ([]Problem, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{apiserver.AddToScheme, v1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fail.Wrap(fail.Internal, err, "prepare the check of issuers")
		}
	}
	var config apiserver.AuthenticationConfiguration
	if err := scheme.Convert(&v1.AuthenticationConfiguration{JWT: jwt}, &config, nil); err != nil {
		return nil, fail.Wrap(fail.Internal, err, "prepare the check of issuers")
	}
	var all []Problem
	for _, e := range validation.ValidateAuthenticationConfiguration(cel.NewDefaultCompiler(), &config, reserved) {
		all = append(all, Problem{Field: e.Field, Text: text(e)})
	}
	return all, nil
}

func text(e *field.Error) string {
	detail := plain(e.Detail)
	switch {
	case e.Type == field.ErrorTypeDuplicate:
		return "is given twice"
	case e.Type == field.ErrorTypeRequired && detail == "":
		return "is required"
	}
	return detail
}

// compiler matches the first line of what cel-go says of a text that does not compile.
var compiler = regexp.MustCompile(`^compilation failed: ERROR: <input>:(\d+):(\d+): (.*)`)

// plain shortens an error of many lines, with the source in it, to one line.
func plain(detail string) string {
	first, _, _ := strings.Cut(detail, "\n")
	if m := compiler.FindStringSubmatch(first); m != nil {
		at := "column " + m[2]
		if m[1] != "1" {
			at = "line " + m[1] + ", " + at
		}
		return "is no CEL expression: " + m[3] + " (" + at + ")"
	}
	return first
}
