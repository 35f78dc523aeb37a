package objects

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube/answer"
	"github.com/naupegos/naupegos/internal/kube/manifest"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/plan/delta"
)

// Finding is the comparison of a set of objects with the cluster.
type Finding struct {
	Deltas  []delta.Delta
	Refused []string // why Apply will refuse objects, one a line; only of sets that are Shared
	Left    []string // fields that other programs changed since this very set was applied, and that Apply leaves to them; only of sets that are Shared
	Pruned  []Ref    // objects that the set no longer has
	Same    bool     // the inventory records these very objects
	Mending bool     // an interrupted apply of these very objects, after an earlier complete one
	Known   bool     // the set was applied before
	Hooked  bool     // only the hooks differ from those that the inventory records
	Mode    bool     // the inventory records the other mode: applied once, or kept as it is
}

// Clean reports whether Apply has nothing to do.
func (f *Finding) Clean() bool { return !f.Mode && f.alike() }

// OnlyMode reports whether only the mode in the inventory differs, which Remember writes.
func (f *Finding) OnlyMode() bool { return f.Mode && f.alike() }

// Mends reports whether this set was applied before: Apply only undoes changes of others.
func (f *Finding) Mends() bool { return f.Same && !f.Hooked || f.Mending }

func (f *Finding) alike() bool {
	return f.Same && !f.Hooked && len(f.Deltas) == 0 && len(f.Refused) == 0 && len(f.Pruned) == 0
}

// Differences finds what Apply would change, field by field, as the API server foresees it. Values of Secrets are masked. An object that can't be compared
// is listed with the reason.
func (c *Applier) Differences(ctx context.Context, manifests []byte, o Options) Finding {
	all, err := manifest.Parse(manifests)
	if err != nil {
		return Finding{Deltas: []delta.Delta{unknown("addon "+o.Addon, err)}}
	}
	f, err := c.Examine(ctx, all, o)
	if err != nil {
		f.Deltas = append(f.Deltas, unknown("addon "+o.Addon, err))
	}
	return f
}

// Examine compares a set with the cluster, and foresees by dry runs what Apply would change and refuse.
func (c *Applier) Examine(ctx context.Context, wanted []*unstructured.Unstructured, o Options) (Finding, error) {
	var f Finding
	found, left, refused, wrong := make([][]delta.Delta, len(wanted)), make([][]rival, len(wanted)), make([]string, len(wanted)), make([]error, len(wanted))
	inv, err := c.inventory(ctx, o.Addon)
	if err != nil {
		return f, err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for i, u := range wanted {
		g.Go(func() error {
			deltas, theirs, err := c.compare(gctx, u, o, inv)
			if o.Shared && fail.KindOf(err) == fail.Invalid {
				wrong[i] = err
				return nil
			} else if o.Shared && fail.KindOf(err) == fail.Conflict {
				refused[i] = manifest.Name(u) + " " + reason(err)
				deltas = []delta.Delta{{Kind: "object", Name: manifest.Name(u), Action: "update", Why: "refused: it " + reason(err)}}
			} else if o.Shared && fail.KindOf(err) == fail.Unreachable {
				return err
			} else if err != nil {
				deltas = []delta.Delta{unknown(manifest.Name(u), err)}
			}
			found[i], left[i] = deltas, theirs
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return f, err
	}
	redefined := map[schema.GroupKind]bool{} // kinds whose fields change with the set
	for i, u := range wanted {
		if gk, ok := manifest.Defines(u); ok && len(found[i]) > 0 {
			redefined[gk] = true
		}
	}
	for i, u := range wanted {
		if len(left[i]) > 0 {
			f.Left = append(f.Left, manifest.Name(u)+" "+list(left[i]))
		}
		switch {
		case wrong[i] == nil:
		case redefined[u.GroupVersionKind().GroupKind()]:
			found[i] = []delta.Delta{{Kind: "object", Name: manifest.Name(u), Action: "update", Why: "its fields can't be compared before its definition changes"}}
		default:
			refused[i] = manifest.Name(u) + ": " + reason(wrong[i])
			found[i] = []delta.Delta{{Kind: "object", Name: manifest.Name(u), Action: "update", Why: "refused: " + reason(wrong[i])}}
		}
	}
	f.Deltas = slices.Concat(found...)
	f.Refused = slices.DeleteFunc(refused, func(s string) bool { return s == "" })
	digest, err := manifest.DigestAll(wanted)
	if err != nil {
		return f, err
	}
	f.Same, f.Known = inv.Digest == digest, inv.Digest != "" || inv.Last != ""
	f.Mending = inv.Digest == "" && inv.Last == digest && inv.Doing == digest
	f.Hooked = f.Same && o.Hooks != "" && inv.Hooks != "" && inv.Hooks != o.Hooks
	f.Mode = f.Known && inv.Once != o.Once
	err = c.leftOut(ctx, &f, wanted, o, inv)
	return f, err
}

// leftOut adds the objects that the inventory has and the set no longer has to a finding.
func (c *Applier) leftOut(ctx context.Context, f *Finding, wanted []*unstructured.Unstructured, o Options, inv inventory) error {
	keep := map[string]bool{}
	for _, r := range refs(wanted) {
		keep[r.identity()] = true
	}
	for _, r := range inv.Objects {
		if keep[r.identity()] {
			continue
		}
		if o.Shared { // an interrupted apply may have recorded objects that it never made, and pruned ones
			live, err := c.owned(ctx, r, o.Addon)
			if err != nil {
				return err
			}
			if live == nil {
				continue
			}
			if heir := o.Heirs[r.identity()]; heir != "" {
				f.Deltas = append(f.Deltas, delta.Delta{Kind: "object", Name: r.String(), Action: "update", Why: "it moves to " + SetTitle(heir)})
				continue
			}
			if stays(live) {
				f.Deltas = append(f.Deltas, delta.Delta{Kind: "object", Name: r.String(), Action: "update", Why: "it leaves the set and stays: its helm.sh/resource-policy is keep, or the cluster needs it"})
				continue
			}
		}
		f.Pruned = append(f.Pruned, Ref(r))
		f.Deltas = append(f.Deltas, delta.Delta{Kind: "object", Name: r.String(), Action: "remove", Why: "the addon no longer has it"})
	}
	return nil
}

func unknown(name string, err error) delta.Delta {
	return delta.Delta{Kind: "object", Name: name, Action: "update", Why: "its fields can't be compared: " + err.Error()}
}

// compare compares one object with the API server's dry run of it. left are fields that an apply leaves to other programs.
func (c *Applier) compare(ctx context.Context, u *unstructured.Unstructured, o Options, inv inventory) (deltas []delta.Delta, left []rival, err error) {
	r, err := c.resource(ctx, refOf(u))
	if meta.IsNoMatchError(err) && o.Shared {
		if err := c.unserved(u); err != nil {
			return nil, nil, err
		}
	}
	if meta.IsNoMatchError(err) {
		deltas, err = created(u)
		return deltas, nil, err
	}
	if err != nil {
		return nil, nil, err
	}
	for range tries {
		deltas, left, err = c.compareWith(ctx, r, u, o, inv)
		if !errors.Is(err, errChanged) {
			return deltas, left, err
		}
	}
	return deltas, left, nil
}

// errChanged means that the live object changed during the comparison: a controller's change would look like a difference.
var errChanged = errors.New("it changed while it was compared")

func (c *Applier) compareWith(ctx context.Context, r dynamic.ResourceInterface, u *unstructured.Unstructured, o Options, inv inventory) (deltas []delta.Delta, left []rival, err error) {
	name := manifest.Name(u)
	live, err := r.Get(ctx, u.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) && inv.ran(u) {
		return nil, nil, nil
	}
	if apierrors.IsNotFound(err) {
		if err := c.foreseeNew(ctx, r, u, o); err != nil {
			return nil, nil, err
		}
		deltas, err = created(u)
		return deltas, nil, err
	}
	if err != nil {
		return nil, nil, answer.Error(ctx, err, "get %s", name).At(c.Host)
	}
	if o.Shared && live.GetDeletionTimestamp() != nil {
		if owner, err := c.owner(ctx, live, o); err == nil && owner == "" {
			return []delta.Delta{{Kind: "object", Name: name, Action: "create", Why: reason(leaving(live))}}, nil, nil
		}
	}
	want, err := marked(u, o.Addon)
	if err != nil {
		return nil, nil, err
	}
	dry := metav1.ApplyOptions{FieldManager: FieldManager, Force: true, DryRun: []string{metav1.DryRunAll}}
	if o.Shared {
		want, left, err = c.applyTo(ctx, r, want, live, o, dry)
	} else {
		want, err = r.Apply(ctx, u.GetName(), want, dry)
	}
	if o.Shared && answer.Immutable(err) {
		if refused := replacement(u, live, err); refused != nil {
			return nil, nil, refused
		}
		return []delta.Delta{{Kind: "object", Name: name, Action: "update", Why: "a field that never changes differs (" + told(err) + "): it is deleted and made again"}}, nil, nil
	}
	if o.Shared && refusal(err) != nil {
		return nil, nil, refusal(err)
	}
	if err != nil {
		return nil, nil, answer.Error(ctx, err, "foresee %s", name).At(c.Host)
	}
	if want.GetResourceVersion() != live.GetResourceVersion() {
		err = errChanged
	}
	return delta.Tree("object", name, essence(live), essence(want), secretOf(u)), left, err
}

// Unowned returns fail.Conflict if an object belongs to another owner than the set of the options. It tries no change: hooks that run before the
// set's objects may have to prepare it.
func (c *Applier) Unowned(ctx context.Context, wanted []*unstructured.Unstructured, o Options) error {
	for _, u := range wanted {
		r, err := c.resource(ctx, refOf(u))
		if meta.IsNoMatchError(err) {
			continue
		}
		if err != nil {
			return err
		}
		live, err := r.Get(ctx, u.GetName(), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return answer.Error(ctx, err, "get %s", manifest.Name(u)).At(c.Host)
		}
		owner, err := c.owner(ctx, live, o)
		if err != nil {
			return err
		}
		if owner != "" {
			return fail.New(fail.Conflict, "nothing of %s was applied: %s belongs to %s", SetTitle(o.Addon), manifest.Name(u), owner).
				Do("give it another name, or remove it there first")
		}
	}
	return nil
}

// Foresee fails with fail.Conflict if Apply would refuse an object of a set that is Shared.
func (c *Applier) Foresee(ctx context.Context, wanted []*unstructured.Unstructured, o Options) error {
	f, err := c.Examine(ctx, wanted, o)
	if err != nil || len(f.Refused) == 0 {
		return err
	}
	e := fail.New(fail.Conflict, "%s", f.Refused[0])
	if more := len(f.Refused) - 1; more > 0 {
		e.What += fmt.Sprintf("; and %d more", more)
	}
	return e.Do("nothing of %s was applied: naupegos diff shows all objects that are refused", SetTitle(o.Addon))
}

// created describes an object that does not exist yet, with its lines.
func created(u *unstructured.Unstructured) ([]delta.Delta, error) {
	d := delta.Delta{Kind: "object", Name: manifest.Name(u), Action: "create"}
	text, err := yaml.Marshal(masked("", u.DeepCopy().Object, secretOf(u)))
	if err != nil {
		return nil, err
	}
	d.Hunks, d.Cut = delta.Hunks("", string(text))
	return []delta.Delta{d}, nil
}

// masked replaces secret values.
func masked(path string, v any, secret func(path, value string) bool) any {
	switch v := v.(type) {
	case map[string]any:
		for key, below := range v {
			v[key] = masked(strings.TrimPrefix(path+"."+key, "."), below, secret)
		}
	case []any:
		for i, name := range delta.Names(v) {
			v[i] = masked(path+"["+name+"]", v[i], secret)
		}
	case string:
		if secret(path, v) && path != "kind" && path != "apiVersion" && path != "type" {
			return "(secret)"
		}
	}
	return v
}

// essence is an object without the fields that the API server writes, and without its digest.
func essence(u *unstructured.Unstructured) map[string]any {
	out := u.DeepCopy()
	delete(out.Object, "status")
	for _, field := range []string{"managedFields", "resourceVersion", "generation", "uid", "creationTimestamp", "selfLink"} {
		unstructured.RemoveNestedField(out.Object, "metadata", field)
	}
	annotations := out.GetAnnotations()
	delete(annotations, DigestAnnotation)
	delete(annotations, contentAnnotation)
	delete(annotations, lastApplied)
	if out.SetAnnotations(annotations); len(annotations) == 0 {
		unstructured.RemoveNestedField(out.Object, "metadata", "annotations")
	}
	return out.Object
}

// lastApplied is the annotation in which kubectl apply keeps the whole object, including a Secret's values.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// secretOf returns which values of an object are secret: all data of a Secret; elsewhere variables, flags and data with the name of a secret, and
// values that look like one.
func secretOf(u *unstructured.Unstructured) func(path, value string) bool {
	isSecret := u.GetKind() == "Secret"
	return func(path, value string) bool {
		return value != "" && (isSecret && !strings.HasPrefix(path, "metadata.") || secretPath.MatchString(path) || secretFlag.MatchString(value)) || machine.Sensitive([]byte(value))
	}
}

// secretPath matches environment variables and ConfigMap entries whose names end like those of secrets; secretFlag matches such arguments.
var (
	secretPath = regexp.MustCompile(`(?i)(\benv\[[^\]]*` + secretName + `\]\.value|^(data|stringData)\.[^\[]*` + secretName + `)$`)
	secretFlag = regexp.MustCompile(`(?i)^--?[\w.-]*` + secretName + `=.`)
)

const secretName = `(password|passwd|passphrase|secret|token|credentials?|(private|api|access|signing|encryption)[_.-]?key)(#\d+)?`
