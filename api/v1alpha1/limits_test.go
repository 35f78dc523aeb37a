package v1alpha1_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

const smallest = "apiVersion: naupegos.dev/v1alpha1\nkind: Cluster\nmetadata: {name: demo}\nspec:\n  provider: {local: {}}\n  workers: [{name: general}]\n"

// TestHostileInput parses malicious input: each must be refused quickly, with a message that names the reason.
func TestHostileInput(t *testing.T) {
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := byte('b'); c < 'j'; c++ {
		bomb += string(c) + ": &" + string(c) + " [" + strings.Repeat("*"+string(c-1)+",", 9) + "]\n"
	}
	utf16Text := []byte{0xff, 0xfe}
	for _, u := range utf16.Encode([]rune(smallest)) {
		utf16Text = append(utf16Text, byte(u), byte(u>>8))
	}
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"too large":           {[]byte(smallest + "# " + strings.Repeat("x", v1alpha1.MaxDocumentBytes)), "is larger than 1024 KiB"},
		"deep lists":          {[]byte(strings.Repeat("[", 500_000)), "exceeded max depth"},
		"deep mappings":       {[]byte(strings.Repeat("{a: ", 200_000)), "exceeded max depth"},
		"deep within limits":  {[]byte("spec: " + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + "\n"), "expected a mapping"},
		"deep unknown key":    {[]byte(smallest + "x: " + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + "\n"), "unknown key"},
		"aliases bomb":        {[]byte(smallest + bomb), "unknown key"},
		"alias of itself":     {[]byte(smallest + "  access: &a\n    sshKeys: [*a]\n"), "aliases (*a) are not read"},
		"not UTF-8":           {[]byte("apiVersion: naupegos.dev/v1alpha1\nkind: \xff\n"), "f:2:7: the byte 0xff is not UTF-8"},
		"UTF-16":              {utf16Text, "is text in UTF-16"},
		"NUL":                 {[]byte(smallest + "x: \x00\n"), "the control character U+0000"},
		"many documents":      {[]byte(strings.Repeat("---\na: b\n", 100_000)), "a second document"},
		"many empty":          {[]byte(strings.Repeat("---\n", 250_000)), "the document is empty"},
		"many keys":           {[]byte(smallest + manyKeys(30_000)), "f: and more"},
		"many items":          {[]byte(strings.Replace(smallest, "[{name: general}]", "["+strings.Repeat("{},", 200_000)+"]", 1)), "has 200000 items, more than 100"},
		"many equal keys":     {[]byte(strings.Repeat("a: b\n", 200_000)), "is given twice"},
		"long key":            {[]byte(smallest + strings.Repeat("k", 900_000) + ": x\n"), "a line is neither"},
		"explicit long key":   {[]byte(smallest + "? " + strings.Repeat("k", 900_000) + "\n: x\n"), "..."},
		"long value":          {[]byte(strings.Replace(smallest, "demo", strings.Repeat("v", 900_000), 1)), "is longer than 63"},
		"escape codes":        {[]byte(strings.Replace(smallest, "demo", `"\e[31mred"`, 1)), `"\x1b[31mred" contains "\x1b"`},
		"large audit policy":  {[]byte(smallest + "  security: {auditLog: {policy: '" + strings.Repeat("[", 900_000) + "'}}\n"), "exceeded max depth"},
		"aliases in a policy": {[]byte(smallest + "  security: {auditLog: {policy: 'rules: *x'}}\n"), "begins with * refers"},
	} {
		t.Run(name, func(t *testing.T) {
			start := cpuTime(t)
			_, err := validation.Parse("f", c.data)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %.300v, want %q", err, c.want)
			}
			if err != nil && len(err.Error()) > 50_000 {
				t.Errorf("the message has %d bytes", len(err.Error()))
			}
			if d := cpuTime(t) - start; d > 5*time.Second {
				t.Errorf("took %v", d)
			}
		})
	}
}

// cpuTime returns the CPU time that this process has used, which does not depend on other processes.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	testkit.Must(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString("k" + strings.Repeat("x", i%7) + string(rune('a'+i%26)) + time.Duration(i).String() + ": 1\n")
	}
	return b.String()
}

// TestHarmless: typical changes by editors and other systems do not change the document.
func TestHarmless(t *testing.T) {
	for name, text := range map[string]string{
		"byte order mark":   "\ufeff" + smallest,
		"CRLF":              strings.ReplaceAll(smallest, "\n", "\r\n"),
		"no last newline":   strings.TrimSuffix(smallest, "\n"),
		"document markers":  "---\n" + smallest + "...\n",
		"trailing marker":   smallest + "---\n",
		"anchor, not used":  strings.Replace(smallest, "demo", "&n demo", 1),
		"comments":          "# a\n" + strings.ReplaceAll(smallest, "\n", " # b\n"),
		"quotes everywhere": strings.NewReplacer("demo", `"demo"`, "Cluster", "'Cluster'").Replace(smallest),
	} {
		t.Run(name, func(t *testing.T) { checkAccepted(t, mustParse(t, "f", []byte(text))) })
	}
}

// TestErrorsAreBounded: Parse reports at most 100 findings, in the document's order, and a last one that says that there are more.
func TestErrorsAreBounded(t *testing.T) {
	_, err := validation.Parse("f", []byte(smallest+manyKeys(150)))
	var errs v1alpha1.Errors
	if !errors.As(err, &errs) || len(errs) != 101 {
		t.Fatalf("%d findings", len(errs))
	}
	for i := 1; i < 100; i++ {
		if errs[i-1].Line > errs[i].Line {
			t.Errorf("line %d before line %d", errs[i-1].Line, errs[i].Line)
		}
	}
}

func TestErrorsAsJSON(t *testing.T) {
	_, err := validation.Parse("f.yaml", bytes.Replace([]byte(smallest), []byte("workers"), []byte("wrokers"), 1))
	var errs v1alpha1.Errors
	if !errors.As(err, &errs) {
		t.Fatal(err)
	}
	got, err := json.Marshal(errs)
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"file":"f.yaml","line":6,"column":3,"field":"spec.wrokers","problem":"unknown key","hint":"did you mean \"workers\"?"}]`
	if string(got) != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

// TestValidateWithoutParse: a document made in Go gets the same checks, only without lines.
func TestValidateWithoutParse(t *testing.T) {
	c := &v1alpha1.Cluster{APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.Kind, Metadata: v1alpha1.Metadata{Name: "Demo"}}
	c.Spec.Provider.Local = &v1alpha1.Local{}
	c.Spec.ControlPlane.Replicas = 2
	c.Spec.Timeouts.Drain = v1alpha1.Duration{Duration: time.Second}
	c.Default()
	got := validation.Validate(c).Error()
	for _, want := range []string{
		`metadata.name: "Demo" has capital letters`, "spec.controlPlane.replicas: 2 control-plane machines are even",
		"spec.timeouts.drain: 1s is not between 10s and 24h", "spec.workers: no machine may run workloads",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if empty := validation.Validate(&v1alpha1.Cluster{}); len(empty) == 0 {
		t.Error("an empty Cluster is accepted")
	}
}

// TestUnseenCharacters: a key that was pasted with a no-break space, or with a character of no width, is reported with the character.
func TestUnseenCharacters(t *testing.T) {
	for c, want := range map[string]string{"\u00a0": "U+00A0", "\u200b": "U+200B"} {
		_, err := validation.Parse("f.yaml", []byte(strings.Replace(smallest, "  workers", "  "+c+"workers", 1)))
		testkit.Fails(t, err, fail.Invalid, "unknown key (it contains the character "+want+", which looks like a space or like nothing: type plain spaces)")
	}
}
