package delta

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestHunks(t *testing.T) {
	many := func(n int, change map[int]string) string {
		var b strings.Builder
		for i := range n {
			l := string(rune('a'+i%26)) + strings.Repeat("x", i/26)
			if c, ok := change[i]; ok {
				l = c
			}
			if l != "" {
				b.WriteString(l + "\n")
			}
		}
		return b.String()
	}
	for name, c := range map[string]struct{ from, to, want string }{
		"equal":       {"a\nb\n", "a\nb\n", ""},
		"both empty":  {"", "", ""},
		"created":     {"", "a\nb\n", "@@ -0,0 +1,2 @@|+a|+b"},
		"removed":     {"a\n", "", "@@ -1,1 +0,0 @@|-a"},
		"appended":    {"a\n", "a\nb\n", "@@ -1,1 +1,2 @@| a|+b"},
		"replaced":    {"a\nb\nc\n", "a\nB\nc\n", "@@ -1,3 +1,3 @@| a|-b|+B| c"},
		"no last end": {"a\n", "a", "@@ -1,1 +1,1 @@|-a|+a ⏎ (no newline at the end)"},
		"far apart":   {many(20, nil), many(20, map[int]string{1: "Z", 18: ""}), "@@ -1,5 +1,5 @@| a|-b|+Z| c| d| e|@@ -16,5 +16,4 @@| p| q| r|-s| t"},
		"empty lines": {"\n\n", "\n", "@@ -1,2 +1,1 @@| |-"},
	} {
		hunks, cut := Hunks(c.from, c.to)
		var got []string
		for _, h := range hunks {
			got = append(got, h.Header())
			got = append(got, h.Lines...)
		}
		if s := strings.Join(got, "|"); s != c.want || cut != 0 {
			t.Errorf("%s: %q, cut %d; want %q", name, s, cut, c.want)
		}
	}
}

func TestHunksAreBounded(t *testing.T) {
	hunks, cut := Hunks("", strings.Repeat("x\n", 1000))
	d := Delta{Hunks: hunks, Cut: cut}
	if added, _ := d.Counts(); added != mostLines || cut != 1000-mostLines {
		t.Errorf("%d lines shown, %d cut", added, cut)
	}
	var a, b strings.Builder
	for i := range 3000 { // too large for the table: replaced as a whole
		a.WriteString(strings.Repeat("a", i%7) + "\n")
		b.WriteString(strings.Repeat("b", i%5) + "\n")
	}
	if hunks, cut := Hunks("1"+a.String()+"2", "3"+b.String()+"4"); len(hunks) == 0 || cut == 0 {
		t.Error("nothing differs")
	}
}

func TestTree(t *testing.T) {
	decode := func(s string) (v any) {
		if err := json.Unmarshal([]byte(s), &v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	all := Tree("field", "", decode(`{"spec":{"a":1,"gone":true,"list":[{"name":"x","n":1},{"name":"y","n":2}],"empty":"v","key":"k1","text":"a\nb\n","same":[1]}}`),
		decode(`{"spec":{"a":2,"list":[{"name":"new","n":3},{"name":"x","n":1},{"name":"y","n":4}],"empty":"","key":"k2","text":"a\nc\n","same":[1],"e":{}}}`),
		func(path, _ string) bool { return path == "spec.key" })
	var got []string
	for i := range all {
		got = append(got, all[i].Line())
	}
	want := []string{"spec.a: 1 -> 2", "spec.e: (none) -> {}", `spec.empty: v -> ""`, "spec.gone: true -> (none)", "update field spec.key, (secret, changed)", "spec.list[new].n: (none) -> 3",
		"spec.list[new].name: (none) -> new", "spec.list[y].n: 2 -> 4", "update field spec.text, +1 -1 lines"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestLine(t *testing.T) {
	web, hunks := "web", []Hunk{{From: 1, To: 1, Lines: []string{" a", "+b"}}}
	at := time.Date(2026, 11, 28, 13, 16, 58, 0, time.Local)
	for want, d := range map[string]Delta{
		"label tier: (none) -> web":                                   Value("label", "tier", nil, &web),
		"update file /etc/hosts: content differs, +1 -0 lines":        {Kind: "file", Name: "/etc/hosts", Action: "update", Why: "content differs", Hunks: hunks},
		"update file /k: content differs, (secret, changed)":          {Kind: "file", Name: "/k", Action: "update", Why: "content differs", Secret: true},
		"restart unit kubelet.service: a file changes":                {Kind: "unit", Name: "kubelet.service", Action: "restart", Why: "a file changes"},
		"update sysctl a.b: 0 → 1":                                    {Kind: "sysctl", Name: "a.b", Action: "update", Why: "0 → 1", Old: ptr("0"), New: ptr("1")},
		"Secret kube-system/s data.k: (secret, changed)":              {Kind: "object", Name: "Secret kube-system/s", Field: "data.k", Action: "update", Secret: true},
		"create Namespace flannel":                                    {Kind: "object", Name: "Namespace flannel", Action: "create"},
		"update file /b: content differs, 3 bytes sha256:1 -> (none)": {Kind: "file", Name: "/b", Action: "update", Why: "content differs", From: &Content{Size: 3, Digest: "sha256:1"}},
		"update file /etc/hosts: content differs; changed on the machine at 13:16:58 (mtime), not by a run": {
			Kind: "file", Name: "/etc/hosts", Action: "update", Why: "content differs", Modified: at, ByHand: true},
	} {
		if got := d.Line(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func ptr(s string) *string { return &s }
