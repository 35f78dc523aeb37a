package marks

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
)

// Site holds the tags and metadata that the document adds to a cluster's resources.
type Site struct {
	Tags     []string
	Metadata map[string]string
}

// Keys of the records of what the document added: Naupegos removes a tag or an entry that the document drops, and keeps those that others set.
const (
	keyTags     = KeyPrefix + "tags"
	keyMetadata = KeyPrefix + "metadata"
)

// tags returns the document's tags and their record; none if it has none.
func (s Site) tags() []string {
	if len(s.Tags) == 0 {
		return nil
	}
	return append(slices.Clone(s.Tags), keyTags+"="+record(slices.Values(s.Tags)))
}

// metadata returns the document's metadata and their record; none if it has none.
func (s Site) metadata() map[string]string {
	if len(s.Metadata) == 0 {
		return nil
	}
	out := maps.Clone(s.Metadata)
	out[Underscored(keyMetadata)] = record(maps.Keys(s.Metadata))
	return out
}

// Retag returns the tags that a resource should have, given those that it has; changed reports whether they differ.
func (s Site) Retag(have []string) (tags []string, changed bool) {
	records := ""
	for _, t := range have {
		if r, ok := strings.CutPrefix(t, keyTags+"="); ok {
			records += r
		}
	}
	want := s.tags()
	for _, t := range have {
		former := recorded(records, t) || strings.HasPrefix(t, keyTags+"=")
		if !former || slices.Contains(want, t) {
			tags = append(tags, t)
		}
	}
	for _, t := range want {
		if !slices.Contains(tags, t) {
			tags = append(tags, t)
		}
	}
	return tags, !slices.Equal(tags, have)
}

// Relabel returns the metadata that a server or volume should have, given those that it has; changed reports whether they differ.
func (s Site) Relabel(have map[string]string) (metadata map[string]string, changed bool) {
	records, want := have[Underscored(keyMetadata)], s.metadata()
	metadata = map[string]string{}
	for k, v := range have {
		if k != Underscored(keyMetadata) && !recorded(records, k) {
			metadata[k] = v
		}
	}
	maps.Copy(metadata, want)
	return metadata, !maps.Equal(metadata, have)
}

// recordSize is the length of one word in a record. Nova's tags have 60 characters, which hold the words of ten tags.
const recordSize = 4

// record returns short digests of words, in order.
func record(words func(func(string) bool)) string {
	var out []string
	for w := range words {
		out = append(out, digest(w))
	}
	slices.Sort(out)
	return strings.Join(out, "")
}

// recorded reports whether a record has a word.
func recorded(record, word string) bool {
	for len(record) >= recordSize {
		if record[:recordSize] == digest(word) {
			return true
		}
		record = record[recordSize:]
	}
	return false
}

func digest(word string) string {
	sum := sha256.Sum256([]byte(word))
	return hex.EncodeToString(sum[:recordSize/2])
}
