// Package expression evaluates CEL expressions on objects of the Kubernetes API. The language has what API servers know of CEL's own libraries:
// strings, sets, optional values, comprehensions of two variables; not what Kubernetes adds (quantities, URLs, authorizers).
//
// It knows nothing of clusters.
package expression

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/ext"
)

// maxCost bounds what one evaluation may cost, as API servers bound a call of theirs.
const maxCost = 1_000_000

// Condition is an expression that is true or false of an object.
type Condition struct{ program cel.Program }

// Compile reads an expression about the variable object. The error says what is wrong with it, in one line.
func Compile(text string) (*Condition, error) {
	env, err := cel.NewEnv(
		cel.Variable("object", cel.DynType), cel.HomogeneousAggregateLiterals(), cel.DefaultUTCTimeZone(true), cel.CrossTypeNumericComparisons(true),
		cel.OptionalTypes(), ext.Strings(ext.StringsVersion(2)), ext.Sets(), ext.TwoVarComprehensions(),
	)
	if err != nil {
		return nil, fmt.Errorf("prepare CEL: %w", err)
	}
	ast, issues := env.Compile(text)
	if issues != nil && len(issues.Errors()) > 0 {
		first := issues.Errors()[0]
		return nil, fmt.Errorf("%s (column %d)", first.Message, first.Location.Column()+1)
	}
	if out := ast.OutputType(); !out.IsExactType(cel.BoolType) && !out.IsExactType(cel.DynType) {
		return nil, fmt.Errorf("is of type %s, and has to be true or false", out)
	}
	p, err := env.Program(ast, cel.CostLimit(maxCost), cel.InterruptCheckFrequency(100))
	if err != nil {
		return nil, fmt.Errorf("prepare the expression: %w", err)
	}
	return &Condition{p}, nil
}

// Holds reports whether the condition is true of an object, as decoded JSON. An error says why that can't be told: mostly a field that is not there.
func (c *Condition) Holds(ctx context.Context, object map[string]any) (bool, error) {
	out, _, err := c.program.ContextEval(ctx, map[string]any{"object": object})
	if err != nil {
		return false, err
	}
	holds, ok := out.Value().(bool)
	if !ok {
		return false, errors.New("it is neither true nor false")
	}
	return holds, nil
}
