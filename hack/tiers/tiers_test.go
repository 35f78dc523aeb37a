package main

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/testkit"
)

// sources are packages whose tests end in every way that tests can.
var sources = map[string]string{
	"go.mod": "module example.org/m\n\ngo 1.24\n",
	"good/good_test.go": `package good
import "testing"
func TestGood(t *testing.T) { t.Log("all is well") }
func TestSkipped(t *testing.T) { t.Skip("no reason") }`,
	"bad/bad_test.go": `package bad
import ("fmt"; "testing")
func TestFine(t *testing.T) { t.Log("fine") }
func TestBad(t *testing.T) {
	t.Log("seed: TestBad chooses with -seed=42")
	for i := range 200 { t.Log("line", i) }
	t.Error("the last word")
}
func TestParent(t *testing.T) {
	t.Run("child", func(t *testing.T) { fmt.Print("half a "); fmt.Println("line"); t.Error("child's fault") })
	t.Run("other", func(t *testing.T) {})
}`,
	"panics/panics_test.go": `package panics
import "testing"
func TestPanics(t *testing.T) { panic("at the disco") }`,
	"exits/exits_test.go": `package exits
import ("fmt"; "os"; "testing")
func TestMain(m *testing.M) { fmt.Println("no root"); os.Exit(1) }
func TestNever(t *testing.T) {}`,
	"broken/broken_test.go": "package broken\nfunc (",
}

// in makes a module of sources and has the test run in it.
func in(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range sources {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	t.Setenv("GOWORK", "off")
	t.Setenv(untilEnv, "") // make test and make test-full, which run these tests, set them
	t.Setenv(treeEnv, "")
}

// do runs a verb, which has to fail or not, and returns what it printed.
func do(t *testing.T, want error, args ...string) string {
	t.Helper()
	var out strings.Builder
	if err := tiers(args, &out); !errors.Is(err, want) {
		t.Fatalf("tiers %s: %v, want %v\n%s", strings.Join(args, " "), err, want, out.String())
	}
	return regexp.MustCompile(`\d+\.\d+s`).ReplaceAllString(out.String(), "Ts")
}

func contains(t *testing.T, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("%q is not in\n%s", w, text)
		}
	}
}

func lacks(t *testing.T, text string, not ...string) {
	t.Helper()
	for _, n := range not {
		if strings.Contains(text, n) {
			t.Errorf("%q is in\n%s", n, text)
		}
	}
}

// TestTiers runs a tier that passes, one that fails and one that is no go test, and looks at what is said of them.
func TestTiers(t *testing.T) {
	in(t)
	good := do(t, nil, "run", "good", "go", "test", "-json", "-count=1", "./good")
	contains(t, good, "ok  \texample.org/m/good\tTs\n", "slowest tests of good:\n", "TestGood", "good      2       -        1")
	lacks(t, good, "all is well", "FAIL")

	bad := do(t, errFailed, "run", "-budget", "1ms", "bad", "go", "test", "-json", "-count=1", "./bad", "./panics", "./exits")
	contains(t, bad, "over its budget  FAILED", "-seed=42", "line 199", "the last word", "half a line\n", "child's fault", "panic: at the disco", "no root")
	lacks(t, bad, "line 100", "fine", "--- FAIL: TestParent (Ts) said last", "other said")

	do(t, errFailed, "run", "shell", "sh", "-c", "echo oh dear; exit 3")
	do(t, nil, "note", "set-up", "83")
	all := do(t, errFailed, "report", "good", "bad")
	contains(t, all, "set-up      -       -        -  1:23", "FAILED: shell: exit status 3\noh dear\n")
	end := "\nok  \texample.org/m/good\tTs\n" +
		"--- FAIL: TestBad (Ts)\n--- FAIL: TestParent (Ts)\n    --- FAIL: TestParent/child (Ts)\nFAIL\texample.org/m/bad\tTs\n" +
		"--- FAIL: TestPanics (Ts)\nFAIL\texample.org/m/panics\tTs\n" +
		"FAIL\texample.org/m/exits\tTs\n" +
		"FAIL\tshell\tTs\nFAIL\n"
	if !strings.HasSuffix(all, end) {
		t.Errorf("the report ends\n%s\nwant\n%s", all[max(0, len(all)-len(end)-200):], end)
	}

	do(t, nil, "forget")
	do(t, nil, "run", "good", "go", "test", "-json", "-count=1", "./good")
	if all := do(t, nil, "report", "good"); !strings.HasSuffix(all, "\nok  \texample.org/m/good\tTs\n") {
		t.Errorf("what was forgotten is in the report:\n%s", all)
	}
	contains(t, do(t, errFailed, "report", "good", "other"), "other: it did not run", "ok  \texample.org/m/good\tTs\nFAIL\tother\tTs\nFAIL\n")
}

// TestBuildFails: the compiler's words are told of, and that nothing ran.
func TestBuildFails(t *testing.T) {
	in(t)
	out := do(t, errFailed, "run", "broken", "go", "test", "-json", "./broken", "./good")
	contains(t, out, "broken_test.go:2", "failed]\nFAIL\n", "ok  \texample.org/m/good")
}

// TestVerbose prints what go test -v does.
func TestVerbose(t *testing.T) {
	in(t)
	out := do(t, nil, "run", "-v", "good", "go", "test", "-json", "-count=1", "./good")
	contains(t, out, "=== RUN   TestGood\n", "all is well\n", "--- PASS: TestGood (Ts)\n", "ok  \texample.org/m/good\tTs\n")
}

// TestCutOff: a test that never ended, because somebody ended the run, has failed.
func TestCutOff(t *testing.T) {
	in(t)
	events := `{"Action":"run","Package":"p","Test":"TestLong"}\n{"Action":"output","Package":"p","Test":"TestLong","Output":"waiting"}`
	out := do(t, errFailed, "run", "cut", "sh", "-c", "printf '"+events+"'; exit 1")
	contains(t, out, "waiting\n(it did not end)", "--- FAIL: TestLong (Ts)\nFAIL\tp\nFAIL\n")
	out = do(t, errFailed, "run", "none", "/does/not/exist")
	contains(t, out, "FAILED: none: fork/exec /does/not/exist", "FAIL\tnone\tTs\nFAIL\n")
}

// TestResume: a tier that has passed for a tree is not run again for it, but for another one, and where it has failed.
func TestResume(t *testing.T) {
	in(t)
	count := func() (n int) {
		text, err := os.ReadFile("runs")
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(text), "ran")
	}
	counted := []string{"sh", "-c", "echo ran >> runs; test ! -e fault"}
	run := func(want error, ran int, args ...string) string {
		t.Helper()
		out := do(t, want, append(append([]string{"run"}, args...), counted...)...)
		if got := count(); got != ran {
			t.Errorf("it has run %d times, want %d:\n%s", got, ran, out)
		}
		return out
	}
	run(nil, 1, "shell")
	run(nil, 2, "shell") // no tree is named
	t.Setenv(treeEnv, "one")
	run(nil, 3, "shell")
	contains(t, run(nil, 3, "shell"), "shell has passed for this tree on ")
	run(nil, 4, "-makes", "shell")
	do(t, nil, "forget")
	run(nil, 4, "shell")
	contains(t, do(t, nil, "report", "shell"), "shell")
	t.Setenv(treeEnv, "two")
	if err := os.WriteFile("fault", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	run(errFailed, 5, "shell")
	if err := os.Remove("fault"); err != nil {
		t.Fatal(err)
	}
	run(nil, 6, "shell")
	t.Setenv(treeEnv, "three")
	do(t, nil, "forget")
	contains(t, do(t, errFailed, "report", "shell"), "shell: it did not run")
}

// TestTime: tests are told when their tier's time is over, and tiers that don't fit in are left out, which is no failure.
func TestTime(t *testing.T) {
	in(t)
	until := func(within string) string {
		out := do(t, nil, "run", "-v", "-within", within, "clock", "sh", "-c", "echo until $NAUPEGOS_TEST_UNTIL.")
		_, out, _ = strings.Cut(out, "until ")
		text, _, _ := strings.Cut(out, ".")
		return text
	}
	if got := until("5m"); got != "" {
		t.Errorf("nobody has set a time, and the tests are told of %s", got)
	}
	began := time.Now().Add(-time.Minute).Unix()
	said := do(t, nil, "begin", "-began", strconv.FormatInt(began, 10), "-tests", "8m", "-slow", "8m", "-latest", "11m")
	contains(t, said, "a program starts in ", "tests have taken 8m0s")
	near := func(what, got string, minutes int64) {
		t.Helper()
		if n, err := strconv.ParseInt(got, 10, 64); err != nil || n < began+60*minutes-3 || n > began+60*minutes+3 {
			t.Errorf("%s is over at %s, want %d: %v", what, got, began+60*minutes, err)
		}
	}
	near("all tiers' time, of which the set-up had a minute", until("20m"), 9)
	near("the tier's own time", until("5m"), 6)
	testkit.Must(t, save(kept, &tier{Name: "bundle", Began: time.Now(), Seconds: 60, Makes: true}))
	near("all tiers' time, with a minute for a bundle", until("20m"), 10)
	testkit.Must(t, save(kept, &tier{Name: "another", Began: time.Now(), Seconds: 600, Makes: true}))
	near("all tiers' time at the latest", until("20m"), 11)
	do(t, nil, "time", "-need", "9m", "early", "soon")
	contains(t, do(t, errFailed, "time", "-need", "11m", "late"), "left out: late:", "they need 11m0s")
	contains(t, do(t, nil, "report", "clock", "late"), "left out\n", "left out: late: ", "set-up")
	do(t, nil, "forget")
	if got := until("5m"); got != "" {
		t.Errorf("what was forgotten ends at %s", got)
	}
}
