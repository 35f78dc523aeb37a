package kube

import (
	"regexp"
	"slices"
	"strings"
	"time"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/naupegos/naupegos/internal/fail"
)

// evictionRefusal matches an API error that refuses an eviction for a reason other than a budget that holds the pod for now.
type evictionRefusal struct {
	says *regexp.Regexp
	kind fail.Kind
	hint string // MATCH stands for the first group of says
}

var evictionRefusals = []evictionRefusal{
	{
		regexp.MustCompile(`more than one PodDisruptionBudget`), fail.Refused,
		"let one disruption budget select the pods, not several: kubectl get pdb -A names them",
	},
	{
		regexp.MustCompile(`admission webhook "([^"]*)" denied`), fail.NotReady,
		"the webhook MATCH forbids the eviction: do what it asks for, or exempt evictions from it",
	},
	{
		regexp.MustCompile(`failed calling webhook "([^"]*)"`), fail.NotReady,
		"the webhook MATCH must answer before pods can be evicted: mend its service, or set its failurePolicy to Ignore",
	},
	{
		regexp.MustCompile(`ValidatingAdmissionPolicy '([^']*)'`), fail.NotReady,
		"the policy MATCH forbids the eviction: do what it asks for, or exempt evictions from it",
	},
	{
		regexp.MustCompile(`cannot create resource "pods/eviction"|cannot create pods/eviction`), fail.Refused,
		"naupegos may not evict pods: the roles of its user were changed",
	},
}

const undrainedHint = "the node stays cordoned; mend or loosen what holds the pods and try again"

// notEvicted returns an error that names the pods that a drain left on a node and why; cause is the error of the drain itself.
func notEvicted(node string, left []string, within time.Duration, cause error) error {
	why := causes(cause)
	if len(why) == 0 { // time ran out
		return fail.Wrap(fail.NotReady, cause, "drain node %s: %d pods did not go within %s: %s", node, len(left), within, strings.Join(left, "; ")).Do(undrainedHint)
	}
	kind, hint := fail.NotReady, undrainedHint
	text := strings.Join(why, "; ")
	for _, r := range evictionRefusals {
		if m := r.says.FindStringSubmatch(text); m != nil {
			kind, hint = r.kind, r.hint
			if len(m) > 1 {
				hint = strings.ReplaceAll(hint, "MATCH", m[1])
			}
			hint = "the node stays cordoned; " + hint
			break
		}
	}
	return fail.Wrap(kind, utilerrors.NewAggregate(flatten(cause)), "drain node %s: %d pods stay: %s", node, len(left), strings.Join(left, "; ")).Do("%s", hint)
}

// causes returns the distinct errors of a drain other than timeouts.
func causes(err error) (out []string) {
	for _, e := range flatten(err) {
		text := e.Error()
		if strings.Contains(text, "global timeout reached") || strings.Contains(text, "context deadline exceeded") || slices.Contains(out, text) {
			continue
		}
		out = append(out, text)
	}
	return out
}

func flatten(err error) []error {
	if all, ok := err.(utilerrors.Aggregate); ok { //nolint:errorlint // drain returns it unchanged
		return utilerrors.Flatten(all).Errors()
	}
	return []error{err}
}
