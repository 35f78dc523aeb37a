package agent

import (
	"os"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/testkit"
)

func TestPutBlob(t *testing.T) {
	f := newFakeHost(t)
	a := f.agent()
	good := digestOf("good")
	cases := []struct {
		name, digest, content string
		size                  int64
		kind                  fail.Kind
	}{
		{"damaged", good, "bad!", 4, fail.Refused},
		{"cut short", good, "goo", 4, fail.Unreachable},
		{"too long", good, "good and more", 4, fail.Unreachable},
		{"no digest", "sha256:../../etc/passwd", "good", 4, fail.Invalid},
	}
	for _, tc := range cases {
		err := a.PutBlob(t.Context(), tc.digest, tc.size, strings.NewReader(tc.content))
		if fail.KindOf(err) != tc.kind {
			t.Errorf("%s: %v", tc.name, err)
		}
		if entries, _ := os.ReadDir(f.root + machine.BlobDir); len(entries) > 0 {
			t.Errorf("%s: left %v", tc.name, entries)
		}
	}
	for range 2 {
		testkit.Must(t, a.PutBlob(t.Context(), good, 4, strings.NewReader("good")))
	}
	info, err := os.Stat(a.blobPath(good))
	testkit.Must(t, err)
	if info.Mode() != 0o755 {
		t.Errorf("mode %v", info.Mode())
	}
	if has, _ := a.HasBlob(good, 5); has {
		t.Error("a blob of another size counts as there")
	}
}

func TestBlobsOfTheLastConfigurationGo(t *testing.T) {
	f := applied(t)
	testkit.Must(t, f.agent().PutBlob(t.Context(), digestOf("new"), 3, strings.NewReader("new")))
	c := config()
	c.Binaries[0].Digest, c.Binaries[0].Size = digestOf("new"), 3
	f.apply(t, c)
	entries, err := os.ReadDir(f.root + machine.BlobDir)
	testkit.Must(t, err)
	if len(entries) != 1 || "sha256:"+entries[0].Name() != digestOf("new") {
		t.Errorf("blobs left: %v", entries)
	}
}
