package observe

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/cluster/inside"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/plan/delta"
	"github.com/naupegos/naupegos/internal/plan/words"
)

// Deltas lists what the agent would change on a machine, with the contents that its dry run has reported.
func Deltas(s *Seen) []delta.Delta {
	if s == nil || s.Report == nil {
		return nil
	}
	return deltas(s.Report)
}

func deltas(r *machine.Report) (all []delta.Delta) {
	images := map[string]int{}
	for _, ch := range r.Changes {
		if strings.HasPrefix(ch.Name, inside.BlobDir+"/") { // their digests mean nothing to users; the index, which changes with them, has names
			images[ch.Action]++
			continue
		}
		all = append(all, deltaOf(ch))
	}
	for _, action := range slices.Sorted(maps.Keys(images)) {
		all = append(all, delta.Delta{Kind: "image", Name: inside.BlobDir, Action: action, Why: words.Count(images[action], "file of an image", "files of images")})
	}
	return all
}

// deltaOf masks content that the agent has marked as secret or that looks like a secret: the machine's mark alone is not enough.
func deltaOf(ch machine.Change) delta.Delta {
	d := delta.Delta{Kind: ch.Kind, Name: ch.Name, Action: ch.Action, Why: ch.Why, Secret: ch.Secret}
	if ch.Kind == "sysctl" {
		d.Old, d.New = text(ch.From), text(ch.To)
		return d
	}
	for _, c := range []*machine.Content{ch.From, ch.To} {
		d.Secret = d.Secret || c != nil && c.Text != nil && machine.Sensitive([]byte(*c.Text))
	}
	if ch.From != nil {
		d.Modified = ch.From.Modified
	}
	d.From, d.To = content(ch.From, d.Secret), content(ch.To, d.Secret)
	readable := func(c *machine.Content) bool { return c == nil || c.Text != nil }
	if d.Secret || ch.From == nil && ch.To == nil || !readable(ch.From) || !readable(ch.To) {
		return d
	}
	d.Hunks, d.Cut = delta.Hunks(orEmpty(text(ch.From)), orEmpty(text(ch.To)))
	return d
}

func content(c *machine.Content, secret bool) *delta.Content {
	switch {
	case c == nil:
		return nil
	case secret:
		return &delta.Content{Mode: c.Mode}
	}
	return &delta.Content{Mode: c.Mode, Size: c.Size, Digest: c.Digest}
}

func text(c *machine.Content) *string {
	if c == nil {
		return nil
	}
	return c.Text
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// DocumentDeltas lists the fields in which a cluster's document differs from the one that was applied last, defaults included; nothing for a new cluster.
func (c *Observer) DocumentDeltas() ([]delta.Delta, error) {
	if len(c.Record.Document) == 0 {
		return nil, nil
	}
	stored, err := validation.Parse("the stored document of "+c.Name(), c.Record.Document)
	if err != nil {
		return nil, err
	}
	return CompareDocuments(stored, c.Doc)
}

// CompareDocuments lists the fields in which two documents differ.
func CompareDocuments(from, to *v1alpha1.Cluster) ([]delta.Delta, error) {
	var trees [2]any
	for i, doc := range []*v1alpha1.Cluster{from, to} {
		short := *doc
		short.Sources = digests(doc.Sources)
		data, err := json.Marshal(&short)
		if err == nil {
			err = json.Unmarshal(data, &trees[i])
		}
		if err != nil {
			return nil, fail.Wrap(fail.Internal, err, "compare documents")
		}
	}
	return delta.Tree("field", "", trees[0], trees[1], func(_, value string) bool { return machine.Sensitive([]byte(value)) }), nil
}

// digests replaces the contents of files by their digests.
func digests(contents map[string]string) map[string]string {
	out := map[string]string{}
	for p, text := range contents {
		out[p] = fmt.Sprintf("sha256:%.12x", sha256.Sum256([]byte(text)))
	}
	return out
}
