package chart

import (
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube/manifest"
)

// The annotations of hooks.
const (
	annotationHook   = "helm.sh/hook"
	annotationWeight = "helm.sh/hook-weight"
	annotationDelete = "helm.sh/hook-delete-policy"
)

// Hook is an object that is made before or after the objects of the chart. A Job must end before the next hook is made.
type Hook struct {
	Object *unstructured.Unstructured
	Weight int
	Keep   bool // leave it in the cluster once it has succeeded

	Install, Upgrade bool // when it runs: with the first installation, with each change after it
}

// Due returns the hooks that run with the first installation of a chart, or with a change of it.
func Due(hooks []Hook, install bool) []Hook {
	return slices.DeleteFunc(slices.Clone(hooks), func(h Hook) bool { return install && !h.Install || !install && !h.Upgrade })
}

// unrun are the events of hooks that a plan does not have: a set that leaves the document leaves without its chart, and nothing is rolled back.
var unrun = []string{"pre-delete", "post-delete", "pre-rollback", "post-rollback"}

// addHook puts an object where its hook belongs. Hooks of tests, removals and rollbacks are left out, unknown ones refused.
func (out *Rendered) addHook(file string, u *unstructured.Unstructured) error {
	h := Hook{Object: u, Keep: !strings.Contains(u.GetAnnotations()[annotationDelete], "hook-succeeded")}
	if w := strings.TrimSpace(u.GetAnnotations()[annotationWeight]); w != "" {
		n, err := strconv.Atoi(w)
		if err != nil {
			return fail.Wrap(fail.Invalid, err, "the weight %q of the hook %s is no whole number", w, manifest.Name(u)).At(file)
		}
		h.Weight = n
	}
	before, after, test := h, h, false
	var others, skipped []string
	for event := range strings.SplitSeq(u.GetAnnotations()[annotationHook], ",") {
		switch event = strings.ToLower(strings.TrimSpace(event)); event {
		case "pre-install":
			before.Install = true
		case "pre-upgrade":
			before.Upgrade = true
		case "post-install":
			after.Install = true
		case "post-upgrade":
			after.Upgrade = true
		case "test", "test-success", "test-failure":
			test = true
		case "":
		default:
			if slices.Contains(unrun, event) {
				skipped = append(skipped, event)
				continue
			}
			others = append(others, event)
		}
	}
	early, late := before.Install || before.Upgrade, after.Install || after.Upgrade
	if len(skipped) > 0 {
		out.Unrun = append(out.Unrun, manifest.Name(u)+" ("+strings.Join(skipped, ", ")+")")
	}
	switch {
	case !early && !late && !test && len(skipped) == 0:
		return fail.New(fail.Refused, "%s is a hook %s, which has no place in a plan", manifest.Name(u), strings.Join(others, ", ")).At(file).
			Do("switch it off by the chart's values; pre-install, pre-upgrade, post-install and post-upgrade are run")
	case !early && !late:
		return nil
	}
	if early {
		out.Before = append(out.Before, before)
	}
	if late {
		out.After = append(out.After, after)
	}
	return nil
}

// sortHooks orders hooks by weight, and hooks of equal weight so that each object comes after the objects it needs.
func sortHooks(hooks []Hook) {
	slices.SortStableFunc(hooks, func(a, b Hook) int {
		if a.Weight != b.Weight {
			return a.Weight - b.Weight
		}
		if r := manifest.Rank(a.Object) - manifest.Rank(b.Object); r != 0 {
			return r
		}
		return strings.Compare(a.Object.GetName(), b.Object.GetName())
	})
}

// Jobs reports whether one of the hooks is a Job.
func Jobs(hooks []Hook) bool {
	return slices.ContainsFunc(hooks, func(h Hook) bool { return h.Object.GetKind() == "Job" })
}
