package marks

import (
	"maps"
	"slices"
	"testing"
)

// TestSiteTags: tags of the document come and go, tags of others and Naupegos' own stay, and a document without tags changes nothing.
func TestSiteTags(t *testing.T) {
	have := []string{"naupegos-cluster=c", "theirs"}
	if _, changed := (Site{}).Retag(have); changed {
		t.Error("a document without tags changes some")
	}
	for _, want := range [][]string{{"a"}, {"b", "team=x"}, {"theirs", "c"}, {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}} {
		var changed bool
		have, changed = Site{Tags: want}.Retag(have)
		if len(have) < 3 || !changed {
			t.Errorf("%v: %v", want, have)
		}
		for _, tag := range want {
			if !slices.Contains(have, tag) {
				t.Errorf("%v: %v lacks %s", want, have, tag)
			}
		}
		for _, tag := range have {
			if len(tag) > 60 {
				t.Errorf("%s has %d characters, Nova takes 60", tag, len(tag))
			}
		}
		if _, again := (Site{Tags: want}).Retag(have); again {
			t.Errorf("%v: the second time changes it again", want)
		}
	}
	if have, _ = (Site{}).Retag(have); !slices.Equal(have, []string{"naupegos-cluster=c"}) {
		t.Errorf("%v", have) // "theirs" was the document's, too, for a while
	}
}

// TestSiteMetadata: entries of the document come, change and go, and others stay.
func TestSiteMetadata(t *testing.T) {
	first := map[string]string{"naupegos_cluster": "c", "hand": "made"}
	have, changed := Site{Metadata: map[string]string{"owner": "a", "tier": "1"}}.Relabel(first)
	if !changed || have["owner"] != "a" || have["hand"] != "made" {
		t.Errorf("%v", have)
	}
	have, changed = Site{Metadata: map[string]string{"owner": "b"}}.Relabel(have)
	if _, ok := have["tier"]; ok || !changed || have["owner"] != "b" {
		t.Errorf("%v", have)
	}
	if _, again := (Site{Metadata: map[string]string{"owner": "b"}}).Relabel(have); again {
		t.Error("the second time changes it again")
	}
	if have, _ = (Site{}).Relabel(have); !maps.Equal(have, first) {
		t.Errorf("%v", have)
	}
}
