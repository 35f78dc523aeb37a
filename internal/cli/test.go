package cli

import (
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/cli/bundles"
	"github.com/naupegos/naupegos/internal/cli/output"
	"github.com/naupegos/naupegos/internal/cli/progress"
	"github.com/naupegos/naupegos/internal/cli/wholefile"
	"github.com/naupegos/naupegos/internal/cluster/addons"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/tool"
)

func newTestCmd(a *App) *cobra.Command {
	var out output.Format
	var junit string
	var limit time.Duration
	c := &cobra.Command{
		Use:   "test NAME",
		Short: "Test that a cluster serves workloads",
		Long: `Test what workloads need from a running cluster: the API through the endpoint and through every gateway; cluster
DNS; a Service, reached from another node by its address, its name and node ports; and on OpenStack a load balancer,
reached from here and from the gateways, and a volume of the cloud.

The tests run in namespaces of their own (naupegos-smoke, naupegos-smoke-cloud) with an image from the bundle, and
remove what they created. They run whatever spec.smokeTest says: that field is about apply.

Exit status: 0 if all tests pass, 5 if one fails.`,
		Example: "  naupegos test demo\n  naupegos test demo -o json\n  naupegos test demo --junit demo.xml",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 0 {
				return fail.New(fail.Invalid, "--timeout=%s is negative", limit)
			}
			if c, err := a.server(); err != nil {
				return err
			} else if c != nil {
				return testAfar(cmd.Context(), a, args[0], limit, junit, &out)
			}
			return a.onCluster(cmd.Context(), args[0], sessionOptions{verb: "test", readOnly: true, bundle: bundles.IfHere}, func(s *session) error {
				tell := func(addons.Proof) {}
				if out.IsTable() {
					tell = func(p addons.Proof) { fmt.Fprint(a.Out, proofLines(p)) }
				}
				proofs, err := s.Cluster.Prove(cmd.Context(), limit, progress.NewLines(a.Err), tell)
				if err != nil {
					return err
				}
				return printProofs(a, args[0], proofs, junit, &out)
			})
		},
	}
	c.Flags().DurationVar(&limit, "timeout", 0, "time limit of each test (default 20s for the API, 1m for DNS, 3m for the Service, 15m for the cloud)")
	c.Flags().StringVar(&junit, "junit", "", "also write the result to this file as JUnit XML")
	out.Bind(c)
	return c
}

// testAfar lets a server run the tests.
func testAfar(ctx context.Context, a *App, name string, limit time.Duration, junit string, out *output.Format) error {
	_, done, err := a.carry(ctx, &verb{asked: operate.Asked{Verb: "test", Cluster: name, Seconds: seconds(limit)}, flags: &runFlags{}})
	if err != nil {
		return err
	}
	if out.IsTable() {
		for _, p := range done.Proofs {
			fmt.Fprint(a.Out, proofLines(p))
		}
	}
	return printProofs(a, name, done.Proofs, junit, out)
}

// printProofs prints the results of a test.
func printProofs(a *App, name string, proofs []addons.Proof, junit string, out *output.Format) error {
	if junit != "" {
		if err := writeJUnit(junit, name, proofs); err != nil {
			return err
		}
	}
	if err := out.Print(a.Out, proofs, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "%d of %d tests passed.\n", len(proofs)-failed(proofs), len(proofs))
		return err
	}); err != nil {
		return err
	}
	if failed(proofs) > 0 {
		return exitCode(fail.NotReady.ExitCode())
	}
	return nil
}

func failed(proofs []addons.Proof) int {
	n := 0
	for _, p := range proofs {
		if !p.Passed {
			n++
		}
	}
	return n
}

// proofLines formats the result of one test, with the reason of a failure below.
func proofLines(p addons.Proof) string {
	mark, detail, failure := "✓", "", ""
	if !p.Passed {
		mark = "✗"
	}
	if p.Detail != "" {
		detail = "  (" + p.Detail + ")"
	}
	if p.Failure != "" {
		failure = "    " + tool.Printable(p.Failure) + "\n"
	}
	return fmt.Sprintf("%s %s%s  %.1fs\n%s", mark, p.Title, detail, p.Seconds, failure)
}

// The elements of JUnit's XML that common tools read.
type (
	junitSuite struct {
		XMLName  xml.Name    `xml:"testsuite"`
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Seconds  float64     `xml:"time,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Class   string        `xml:"classname,attr"`
		Name    string        `xml:"name,attr"`
		Seconds float64       `xml:"time,attr"`
		Failure *junitFailure `xml:"failure,omitempty"`
	}
	junitFailure struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// writeJUnit writes the results as a JUnit test suite, for programs that show these.
func writeJUnit(path, name string, proofs []addons.Proof) error {
	suite := junitSuite{Name: "naupegos test " + name, Tests: len(proofs), Failures: failed(proofs)}
	for _, p := range proofs {
		c := junitCase{Class: name, Name: p.Name, Seconds: p.Seconds}
		if !p.Passed {
			c.Failure = &junitFailure{Message: p.Title + ": failed", Text: tool.Printable(p.Failure)}
		}
		suite.Seconds += p.Seconds
		suite.Cases = append(suite.Cases, c)
	}
	data, err := xml.MarshalIndent(suite, "", "  ")
	if err != nil {
		return fail.Wrap(fail.Internal, err, "write JUnit XML")
	}
	return wholefile.Replace(path, append([]byte(xml.Header), append(data, '\n')...), 0o644)
}
