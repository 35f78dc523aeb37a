package images

import (
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
)

// Distinct returns the images of mentions, each once. If an image has mentions with and without a digest, the one with a digest counts.
func Distinct(mentions []Mention) []Reference {
	var out []Reference
	for _, m := range mentions {
		if !slices.ContainsFunc(out, func(r Reference) bool { return r.Name == m.Name && r.Tag == m.Tag && r.Digest == m.Digest }) {
			out = append(out, m.Reference)
		}
	}
	return out
}

// CheckPinned refuses mentions without a digest and names each of them.
func CheckPinned(mentions []Mention) error {
	var loose []string
	for _, m := range mentions {
		if m.Digest == "" {
			loose = append(loose, m.Where()+": "+m.Text)
		}
	}
	if len(loose) == 0 {
		return nil
	}
	return fail.New(fail.Refused, "%d images are named by a tag, which can come to mean another image:\n  %s", len(loose), strings.Join(loose, "\n  ")).
		Do("write NAME@sha256:…, or let --pin record what their tags mean now")
}
